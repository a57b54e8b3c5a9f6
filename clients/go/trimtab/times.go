package trimtab

import (
	"math/big"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// latestS is the latest time of a snapshot, Unix seconds (year 2255).
const latestS = 9_000_000_000

// longestDuration is the longest text of a duration that is read.
const longestDuration = 100

var durationUnits = []struct {
	name string
	ns   int64
}{
	{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9},
}

// unixS returns whole Unix seconds; 0 for no time.
func unixS(time *metav1.Time) int64 {
	if time == nil || time.IsZero() {
		return 0
	}
	return usableS(time.Unix())
}

// usableS returns Unix seconds within the times of a snapshot; 0 stays 0.
func usableS(seconds int64) int64 {
	switch {
	case seconds < 0:
		return 1
	case seconds > latestS:
		return latestS
	}
	return seconds
}

// timestamp returns a time as a message, to the microsecond; nil for none.
func timestamp(time *metav1.Time) *timestamppb.Timestamp {
	if time == nil || time.IsZero() {
		return nil
	}
	usable := usableS(time.Unix())
	out := &timestamppb.Timestamp{Seconds: usable}
	if usable == time.Unix() {
		out.Nanos = int32(time.Nanosecond() / 1000 * 1000)
	}
	return out
}

func ceilSeconds(ns int64) int64 {
	return ns/secondNs + min(ns%secondNs, 1)
}

// goDurationNs returns a duration as Go writes them, cut towards zero. It adds
// up exactly, where time.ParseDuration rounds fractions.
func goDurationNs(text string) (int64, bool) {
	if len([]rune(text)) > longestDuration || text == "" {
		return 0, false
	}
	rest := text
	isNegative := rest[0] == '-'
	if isNegative || rest[0] == '+' {
		rest = rest[1:]
	}
	if rest == "0" {
		return 0, true
	}
	if rest == "" {
		return 0, false
	}
	total := new(big.Int)
	for rest != "" {
		part, left, ok := durationPart(rest)
		if !ok {
			return 0, false
		}
		total.Add(total, part)
		rest = left
	}
	if !total.IsInt64() {
		return 0, false
	}
	if isNegative {
		return -total.Int64(), true
	}
	return total.Int64(), true
}

// durationPart reads one number with its unit, and returns the rest.
func durationPart(text string) (*big.Int, string, bool) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		return nil, "", false
	}
	whole, fraction, _ := strings.Cut(text[:end], ".")
	if whole+fraction == "" || strings.Contains(fraction, ".") {
		return nil, "", false
	}
	for _, unit := range durationUnits {
		left, ok := strings.CutPrefix(text[end:], unit.name)
		if !ok {
			continue
		}
		value, _ := new(big.Int).SetString(whole+fraction, 10)
		value.Mul(value, big.NewInt(unit.ns))
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil)
		return value.Quo(value, scale), left, true
	}
	return nil, "", false
}
