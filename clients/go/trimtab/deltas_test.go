package trimtab_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"trimtab.dev/clients/go/trimtab"
	pb "trimtab.dev/clients/go/trimtabv1"
)

var deltas = flag.String("deltas", "", "folder with NAME.before and NAME.after, snapshots; NAME.delta is written")

func TestDeltasAreWritten(t *testing.T) {
	if *deltas == "" {
		t.Skip("no folder with pairs of snapshots: the repository's Python tests give one by -deltas")
	}
	files, err := filepath.Glob(filepath.Join(*deltas, "*.before"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshots in %s: %v", *deltas, err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".before")
		delta, err := trimtab.Delta(readSnapshot(t, file), readSnapshot(t, base+".after"))
		if err != nil {
			t.Fatal(err)
		}
		if delta == nil {
			continue
		}
		data, err := proto.Marshal(delta)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(base+".delta", data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func readSnapshot(t *testing.T, file string) *pb.ClusterSnapshot {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out pb.ClusterSnapshot
	if err := proto.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestEqualSnapshotsHaveAnEmptyDelta(t *testing.T) {
	delta, err := trimtab.Delta(build(t, cluster(3, 2)), build(t, cluster(3, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if delta.Changed.Pods.Count != 0 || len(delta.Changed.Nodes)+len(delta.DeletedNodes)+len(delta.DeletedPods) != 0 {
		t.Errorf("the delta is %v", delta)
	}
}

func TestASnapshotThatDeltaCannotCompareIsSentWhole(t *testing.T) {
	changes := map[string]func(*pb.ClusterSnapshot){
		"other resources": func(s *pb.ClusterSnapshot) { s.Resources = append(s.Resources, "example.com/x") },
		"unsorted pods":   func(s *pb.ClusterSnapshot) { s.Pods.Names[len(s.Pods.Names)-1] = '0' },
		"a newer field":   func(s *pb.ClusterSnapshot) { s.ProtoReflect().SetUnknown([]byte{0xf8, 0x7f, 1}) },
		"most pods":       func(s *pb.ClusterSnapshot) { clear(s.Pods.Flags); s.Pods.Flags[0] = 1; flip(s.Pods.Flags) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			after := build(t, cluster(20, 4))
			change(after)
			delta, err := trimtab.Delta(build(t, cluster(20, 4)), after)
			if delta != nil || err != nil {
				t.Errorf("there is a delta: %v, %v", delta, err)
			}
		})
	}
}

func flip(flags []byte) {
	for i := range flags {
		flags[i] ^= 1
	}
}

func TestADeltaOfABrokenSnapshotIsAnError(t *testing.T) {
	changes := map[string]func(*pb.ClusterSnapshot){
		"an index beyond the strings": func(s *pb.ClusterSnapshot) { s.Strings = s.Strings[:1] },
		"a short column":              func(s *pb.ClusterSnapshot) { s.Pods.Spec = s.Pods.Spec[4:] },
		"lengths beyond the names":    func(s *pb.ClusterSnapshot) { s.Pods.Names = s.Pods.Names[1:] },
		"a node twice":                func(s *pb.ClusterSnapshot) { s.Nodes = append(s.Nodes, s.Nodes[0]) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			broken := build(t, cluster(3, 2))
			change(broken)
			if _, err := trimtab.Delta(build(t, cluster(3, 2)), broken); err == nil {
				t.Error("there is no error")
			}
		})
	}
}
