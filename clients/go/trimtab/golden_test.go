package trimtab_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"trimtab.dev/clients/go/trimtab"
	"trimtab.dev/clients/go/trimtab/objectfiles"
	pb "trimtab.dev/clients/go/trimtabv1"
)

var golden = flag.String("golden", "", "folder with NAME.json, objects, and NAME.snapshot, the bytes that Python makes of them")

// numberAnnotations are those that the shared tests read.
var numberAnnotations = []string{"example.com/cost"}

func TestSnapshotsHaveTheDigestsRecordedWithThem(t *testing.T) {
	var digests map[string]string
	data, err := os.ReadFile("testdata/digests.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &digests); err != nil {
		t.Fatal(err)
	}
	for name, digest := range digests {
		t.Run(name, func(t *testing.T) {
			sum := sha256.Sum256(snapshotOf(t, filepath.Join("testdata", name)))
			if found := hex.EncodeToString(sum[:]); found != digest {
				t.Errorf("the snapshot's digest is %s, recorded is %s", found, digest)
			}
		})
	}
}

func TestSnapshotsAreThoseOfPython(t *testing.T) {
	if *golden == "" {
		t.Skip("no folder with snapshots of Python: the repository's Python tests give one by -golden")
	}
	files, err := filepath.Glob(filepath.Join(*golden, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects in %s: %v", *golden, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".snapshot")
			if err != nil {
				t.Fatal(err)
			}
			if found := snapshotOf(t, file); !bytes.Equal(found, want) {
				t.Errorf("not the same bytes:\n%s", difference(t, want, found))
			}
		})
	}
	t.Logf("%d snapshots compared", len(files))
}

// snapshotOf returns the bytes of the snapshot of a file's objects.
func snapshotOf(t *testing.T, file string) []byte {
	t.Helper()
	snapshot, err := trimtab.Build(readObjects(t, file))
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(snapshot.Message)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readObjects(t testing.TB, file string) trimtab.Objects {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var source io.Reader = opened
	if strings.HasSuffix(file, ".gz") {
		if source, err = gzip.NewReader(opened); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(source)
	if err != nil {
		t.Fatal(err)
	}
	objects := trimtab.Objects{NumberAnnotations: numberAnnotations}
	if _, err := objectfiles.Add(data, &objects); err != nil {
		t.Fatal(err)
	}
	return objects
}

// difference returns the first lines in which two snapshots differ.
func difference(t *testing.T, want, found []byte) string {
	var one, other pb.ClusterSnapshot
	if proto.Unmarshal(want, &one) != nil || proto.Unmarshal(found, &other) != nil {
		t.Fatal("not snapshots")
	}
	a, b := strings.Split(prototext.Format(&one), "\n"), strings.Split(prototext.Format(&other), "\n")
	for i := range a {
		if i >= len(b) || strings.Join(strings.Fields(a[i]), " ") != strings.Join(strings.Fields(b[i]), " ") {
			return strings.Join(a[max(0, i-8):min(len(a), i+4)], "\n") + "\n--- found\n" + strings.Join(b[max(0, i-8):min(len(b), i+4)], "\n")
		}
	}
	return "the texts are equal"
}
