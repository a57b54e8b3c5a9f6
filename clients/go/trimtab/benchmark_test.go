package trimtab_test

import (
	"testing"

	"trimtab.dev/clients/go/trimtab"
)

// BenchmarkBuild makes the snapshot of 1,000 nodes with 30,000 pods.
func BenchmarkBuild(b *testing.B) {
	objects := cluster(1000, 30)
	for b.Loop() {
		if _, err := trimtab.Build(objects); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDelta compares two snapshots of 1,000 nodes with 30,000 pods.
func BenchmarkDelta(b *testing.B) {
	objects := cluster(1000, 30)
	before, err := trimtab.Build(objects)
	if err != nil {
		b.Fatal(err)
	}
	objects.Pods = objects.Pods[1:]
	after, err := trimtab.Build(objects)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := trimtab.Delta(before.Message, after.Message); err != nil {
			b.Fatal(err)
		}
	}
}
