package trimtab

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// recorded are the objects of real clusters.
func recorded(tb testing.TB) []*unstructured.Unstructured {
	tb.Helper()
	found := []*unstructured.Unstructured{}
	files, err := filepath.Glob("../../data/recordings/*.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		found = append(found, objectsIn(tb, file)...)
	}
	if len(found) < 100 {
		tb.Fatalf("only %d objects are recorded", len(found))
	}
	return found
}

func objectsIn(tb testing.TB, file string) []*unstructured.Unstructured {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	if data, err = io.ReadAll(reader); err != nil {
		tb.Fatal(err)
	}
	return parsed(tb, data)
}

func parsed(tb testing.TB, data []byte) []*unstructured.Unstructured {
	tb.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal(data, &list); err != nil {
		tb.Fatal(err)
	}
	found := []*unstructured.Unstructured{}
	for _, one := range list.Items {
		found = append(found, &unstructured.Unstructured{Object: one})
	}
	return found
}

// without returns a value without the fields that are not read.
func without(from any, read *fields) any {
	switch typed := from.(type) {
	case []any:
		made := []any{}
		for _, one := range typed {
			made = append(made, without(one, read))
		}
		return made
	case map[string]any:
		if read == nil {
			return typed
		}
		made := map[string]any{}
		for key, one := range typed {
			if inner, isRead := read.of(key); isRead {
				made[key] = without(one, inner)
			}
		}
		return made
	}
	return from
}

func TestTypedObjectsAreSentAsTheirJSONWithoutWhatIsNotRead(t *testing.T) {
	count := 0
	for _, plain := range recorded(t) {
		of := plain.GroupVersionKind()
		read := knownContract().kinds[of.Group+"/"+of.Kind]
		if read == nil {
			continue
		}
		objects := []Object{plain}
		if typed, err := scheme.Scheme.New(of); err == nil && runtime.DefaultUnstructuredConverter.FromUnstructured(plain.Object, typed) == nil {
			objects = append(objects, typed.(Object))
			count++
		}
		for _, object := range objects {
			object.SetManagedFields(nil)
			whole, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			var content map[string]any
			if err := json.Unmarshal(whole, &content); err != nil {
				t.Fatal(err)
			}
			wanted := without(content, read.fields).(map[string]any)
			wanted["apiVersion"], wanted["kind"] = of.GroupVersion().String(), of.Kind
			data, err := (&sentObject{object: object, of: of, read: read.fields}).json()
			if err != nil {
				t.Fatal(err)
			}
			var sent any
			if err := json.Unmarshal(data, &sent); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			if !reflect.DeepEqual(sent, any(wanted)) {
				t.Errorf("%T %s:\nsent   %v\nwanted %v", object, object.GetName(), sent, wanted)
				return
			}
		}
	}
	t.Logf("%d typed objects", count)
}

// BenchmarkPods encodes pods of recorded clusters.
func BenchmarkPods(b *testing.B) {
	var pods []Object
	for _, plain := range recorded(b) {
		if plain.GetKind() == "Pod" {
			typed, _ := scheme.Scheme.New(plain.GroupVersionKind())
			if runtime.DefaultUnstructuredConverter.FromUnstructured(plain.Object, typed) == nil {
				pods = append(pods, typed.(Object))
			}
		}
	}
	read := knownContract().kinds["/Pod"].fields
	at := 0
	for b.Loop() {
		at++
		one := pods[at%len(pods)]
		if _, err := (&sentObject{object: one, of: one.GetObjectKind().GroupVersionKind(), read: read}).json(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestObjectsOfAFolderAreTrimmed writes what is sent of the objects of each file beside it; the repository's Python
// tests compare what both mean.
func TestObjectsOfAFolderAreTrimmed(t *testing.T) {
	folder := os.Getenv("TRIMTAB_OBJECTS")
	if folder == "" {
		t.Skip("TRIMTAB_OBJECTS names no folder; the repository's Python tests give one")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	podFields := knownContract().kinds["/Pod"].fields.withAnnotations([]string{"example.com/cost"})
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sent := []json.RawMessage{}
		for _, one := range parsed(t, data) {
			one.SetResourceVersion("")
			_, made, err := sentOf(one, podFields)
			if err != nil {
				t.Fatal(err)
			}
			if made != nil {
				sent = append(sent, made.data)
			}
		}
		out, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.TrimSuffix(file, ".json")+".trimmed", out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
