package karpenter

import (
	"flag"
	"testing"

	"sigs.k8s.io/karpenter/pkg/operator/options"
)

func parsed(args ...string) (*Options, error) {
	given, set := &Options{}, &options.FlagSet{FlagSet: flag.NewFlagSet("karpenter", flag.ContinueOnError)}
	given.AddFlags(set)
	return given, given.Parse(set, args...)
}

func TestFlagsSetWhatACommandMustSave(t *testing.T) {
	given, err := parsed("--trimtab-min-saving-share=0.3", "--trimtab-min-saving-per-eviction=0.02")
	if err != nil || given.Settings.LeastSaving != 0.3 || given.Settings.LeastSavingPerPod != 0.02 {
		t.Errorf("%v, %+v", err, given.Settings)
	}
	if given, err = parsed(); err != nil || given.Settings != DefaultSettings() {
		t.Errorf("without flags: %v, %+v", err, given.Settings)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, one := range []string{
		"--trimtab-min-saving-per-eviction=-1", "--trimtab-min-saving-per-eviction=NaN", "--trimtab-min-saving-per-eviction=Inf",
		"--trimtab-min-saving-share=1", "--trimtab-max-leaving-nodes=0", "--trimtab-deadline=0s",
	} {
		if _, err := parsed(one); err == nil {
			t.Errorf("%s is taken", one)
		}
	}
}
