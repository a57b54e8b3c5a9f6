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
	offers := jsonIn[map[string][]trimtab.MachineOffer](t, "testdata/offers.json")
	wanted := jsonIn[map[string][]byte](t, "testdata/settings.json")
	for name, digest := range digests {
		t.Run(name, func(t *testing.T) {
			snapshot, settings := snapshotOf(t, filepath.Join("testdata", name), offers[name])
			sum := sha256.Sum256(snapshot)
			checkSettings(t, settings, wanted[name])
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
			name := strings.TrimSuffix(file, ".json")
			var offers []trimtab.MachineOffer
			if _, err := os.Stat(name + ".offers"); err == nil {
				offers = jsonIn[[]trimtab.MachineOffer](t, name+".offers")
			}
			snapshot, settings := snapshotOf(t, file, offers)
			if want := bytesIn(t, name+".snapshot"); !bytes.Equal(snapshot, want) {
				t.Errorf("not the same bytes:\n%s", difference(t, want, snapshot))
			}
			checkSettings(t, settings, bytesIn(t, name+".settings"))
		})
	}
	t.Logf("%d snapshots compared", len(files))
}

// snapshotOf returns the bytes of the snapshot of a file's objects, and what its
// NodePools ask of plans.
func snapshotOf(t *testing.T, file string, offers []trimtab.MachineOffer) ([]byte, *pb.PlanSettings) {
	t.Helper()
	objects := readObjects(t, file)
	objects.Offers = offers
	snapshot, err := trimtab.Build(objects)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(snapshot.Message)
	if err != nil {
		t.Fatal(err)
	}
	return data, snapshot.Settings
}

// checkSettings compares messages: the order of their maps differs by language.
func checkSettings(t *testing.T, settings *pb.PlanSettings, data []byte) {
	t.Helper()
	want := &pb.PlanSettings{}
	if err := proto.Unmarshal(data, want); err != nil {
		t.Fatal(err)
	}
	if (settings == nil) != (len(data) == 0) || settings != nil && !proto.Equal(settings, want) {
		t.Errorf("not the same settings:\n%s", textDifference(want, settings))
	}
}

func bytesIn(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func jsonIn[T any](t *testing.T, file string) T {
	t.Helper()
	var found T
	if err := json.Unmarshal(bytesIn(t, file), &found); err != nil {
		t.Fatal(err)
	}
	return found
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
	return textDifference(&one, &other)
}

func textDifference(one, other proto.Message) string {
	a, b := strings.Split(prototext.Format(one), "\n"), strings.Split(prototext.Format(other), "\n")
	for i := range a {
		if i >= len(b) || strings.Join(strings.Fields(a[i]), " ") != strings.Join(strings.Fields(b[i]), " ") {
			return strings.Join(a[max(0, i-8):min(len(a), i+4)], "\n") + "\n--- found\n" + strings.Join(b[max(0, i-8):min(len(b), i+4)], "\n")
		}
	}
	return "the texts are equal"
}
