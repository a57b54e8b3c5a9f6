package karpenter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/utils/env"

	"trimtab.dev/clients/go/trimtab"
)

type optionsKey struct{}

// Options are the flags; each has a variable of the environment too.
type Options struct {
	// Address of the planner, host:port; empty = Karpenter is as without this package.
	Address string
	// Security of the connection; the zero value is plain text.
	Security trimtab.Security
	// ClusterName is what the planner calls the cluster in logs and caches.
	ClusterName string
	Settings    Settings
}

// AddFlags declares the flags.
func (o *Options) AddFlags(fs *options.FlagSet) {
	standard := DefaultSettings()
	fs.StringVar(&o.Address, "trimtab-address", env.WithDefaultString("TRIMTAB_ADDRESS", ""), "Address of the Trimtab planner, host:port. Empty: Karpenter decides alone")
	fs.StringVar(&o.Security.CAFile, "trimtab-tls-ca", env.WithDefaultString("TRIMTAB_TLS_CA", ""), "CA certificates that the planner's certificate is checked with, PEM. Empty: plain text")
	fs.StringVar(&o.Security.CertFile, "trimtab-tls-cert", env.WithDefaultString("TRIMTAB_TLS_CERT", ""), "Karpenter's certificate for the planner, PEM")
	fs.StringVar(&o.Security.KeyFile, "trimtab-tls-key", env.WithDefaultString("TRIMTAB_TLS_KEY", ""), "Key of the certificate, PEM")
	fs.StringVar(&o.Security.ServerName, "trimtab-tls-server-name", env.WithDefaultString("TRIMTAB_TLS_SERVER_NAME", ""), "Name that the planner's certificate must have. Empty: the host of the address")
	fs.StringVar(&o.Security.TokenFile, "trimtab-token-file", env.WithDefaultString("TRIMTAB_TOKEN_FILE", ""), "File with a bearer token for the planner")
	fs.StringVar(&o.ClusterName, "trimtab-cluster-name", env.WithDefaultString("TRIMTAB_CLUSTER_NAME", "karpenter"), "Name of the cluster in the planner's logs")
	fs.DurationVar(&o.Settings.Deadline, "trimtab-deadline", env.WithDefaultDuration("TRIMTAB_DEADLINE", standard.Deadline), "How long a plan may take before Karpenter goes on alone")
	fs.DurationVar(&o.Settings.ValidationDelay, "trimtab-validation-delay", env.WithDefaultDuration("TRIMTAB_VALIDATION_DELAY", standard.ValidationDelay), "How long a plan must stay valid before it is carried out")
	fs.DurationVar(&o.Settings.HoldTime, "trimtab-hold-time", env.WithDefaultDuration("TRIMTAB_HOLD_TIME", standard.HoldTime), "How long other consolidation waits at most for a plan in progress")
	fs.DurationVar(&o.Settings.RefusalTime, "trimtab-refusal-time", env.WithDefaultDuration("TRIMTAB_REFUSAL_TIME", standard.RefusalTime), "How long nodes that Karpenter refused to replace together are not tried again")
	fs.IntVar(&o.Settings.MostLeaving, "trimtab-max-leaving-nodes", env.WithDefaultInt("TRIMTAB_MAX_LEAVING_NODES", standard.MostLeaving), "Most nodes that leave by one plan, besides Karpenter's budgets")
	fs.Float64Var(&o.Settings.LeastSaving, "trimtab-min-saving-share", standard.LeastSaving, "Least saving of a plan, as a share of what the nodes that leave cost")
	fs.Float64Var(&o.Settings.LeastSavingPerPod, "trimtab-min-saving-per-eviction", standard.LeastSavingPerPod, "Least saving of a plan for one hour and each pod that it moves, in the currency of the prices")
}

// Parse reads and checks the flags.
func (o *Options) Parse(fs *options.FlagSet, args ...string) error {
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(0)
		}
		return fmt.Errorf("parsing flags, %w", err)
	}
	return o.check()
}

func (o *Options) check() error {
	switch {
	case o.Settings.Deadline <= 0 || o.Settings.HoldTime < 0 || o.Settings.ValidationDelay < 0 || o.Settings.RefusalTime < time.Second:
		return errors.New("trimtab-deadline must be above 0, trimtab-hold-time and trimtab-validation-delay not below, trimtab-refusal-time at least 1s")
	case o.Settings.MostLeaving < 1:
		return errors.New("trimtab-max-leaving-nodes must be at least 1")
	case o.Settings.LeastSaving < 0 || o.Settings.LeastSaving >= 1:
		return errors.New("trimtab-min-saving-share must be at least 0 and below 1")
	case !(o.Settings.LeastSavingPerPod >= 0) || math.IsInf(o.Settings.LeastSavingPerPod, 1):
		return errors.New("trimtab-min-saving-per-eviction must be a number of at least 0")
	}
	return nil
}

// ToContext puts the options where Karpenter keeps its own.
func (o *Options) ToContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// FromContext returns the options of a context of Karpenter's operator.
func FromContext(ctx context.Context) *Options {
	found, known := ctx.Value(optionsKey{}).(*Options)
	if !known {
		return &Options{Settings: DefaultSettings()}
	}
	return found
}
