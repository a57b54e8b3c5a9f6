package trimtab

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	pb "trimtab.dev/clients/go/trimtabv1"
)

const (
	// worthADeltaBytes : smaller snapshots are sent whole; to compare them would
	// take longer.
	worthADeltaBytes = 256 << 10
	// surelyLargePods : a snapshot with this many pods is large, whatever its size,
	// which takes as long to compute as its bytes.
	surelyLargePods = 10_000
	// internerGrowth : an interner with this many times the entries of its first
	// snapshot is replaced.
	internerGrowth = 4
)

// session is what a client knows of what its planner has.
type session struct {
	interner    *interner
	firstSize   int
	base        *internedSnapshot
	baseVersion string

	state        []byte
	stateVersion string
}

// payload is the data after the header. snapshot : of which it was made; nil =
// not to be compared with the next one.
type payload struct {
	baseVersion string
	data        []byte
	snapshot    *internedSnapshot
}

// exchange makes a call with as little data as possible, and makes it with all
// data if the planner lacks some.
func (c *Client) exchange(
	snapshot *pb.ClusterSnapshot, request *pb.PlanRequest, call func(*pb.PlanRequest, []byte) error,
) (*internedSnapshot, error) {
	header := proto.CloneOf(request)
	requireFeatures(header, snapshot)
	sent, err := c.known.payload(snapshot)
	if err != nil {
		return nil, err
	}
	c.known.shortenState(header)
	for {
		header.BaseVersion = sent.baseVersion
		err := call(header, sent.data)
		reason := ReasonOf(err)
		switch {
		case err == nil:
			return sent.snapshot, nil
		case sent.baseVersion != "" && wholeMayHelp(reason):
			c.known.base = nil
			sent.baseVersion = ""
			if sent.data, err = proto.Marshal(snapshot); err != nil {
				return nil, err
			}
		case reason == pb.ErrorReason_STATE_UNKNOWN && request.StateVersion == "" && header.StateVersion != "":
			c.known.state = nil
			header.StateVersion, header.State = "", request.State
		default:
			return nil, err
		}
	}
}

// wholeMayHelp says whether the whole snapshot may do where a delta failed: the
// base is unknown or another one, or a row is invalid, and is then named as in
// the whole snapshot.
func wholeMayHelp(reason pb.ErrorReason_Code) bool {
	return reason == pb.ErrorReason_SNAPSHOT_BASE_UNKNOWN || reason == pb.ErrorReason_SNAPSHOT_INVALID ||
		reason == pb.ErrorReason_SNAPSHOT_MALFORMED
}

// payload returns the difference to the confirmed snapshot, or the whole one.
func (s *session) payload(snapshot *pb.ClusterSnapshot) (payload, error) {
	if snapshot.GetPods().GetCount() < surelyLargePods && proto.Size(snapshot) < worthADeltaBytes {
		data, err := proto.Marshal(snapshot)
		return payload{data: data}, err
	}
	interned := s.intern(snapshot)
	if interned != nil && s.base != nil {
		if delta, err := s.interner.difference(s.base, interned); err == nil {
			data, err := proto.Marshal(delta)
			return payload{s.baseVersion, data, interned}, err
		}
	}
	data, err := proto.Marshal(snapshot)
	return payload{"", data, interned}, err
}

// intern numbers a snapshot; nil for one that breaks the contract, whose row the
// planner's error names.
func (s *session) intern(snapshot *pb.ClusterSnapshot) *internedSnapshot {
	if s.interner == nil || s.interner.size() > internerGrowth*s.firstSize {
		s.interner, s.base, s.firstSize = newInterner(), nil, 0
	}
	interned, err := s.interner.intern(snapshot)
	if err != nil {
		return nil
	}
	if s.firstSize == 0 {
		s.firstSize = s.interner.size()
	}
	return interned
}

// shortenState replaces the state by its version if it is that of the last
// answer.
func (s *session) shortenState(header *pb.PlanRequest) {
	if s.state == nil || header.State == nil {
		return
	}
	data, err := deterministic.Marshal(header.State)
	if err == nil && bytes.Equal(data, s.state) {
		header.State, header.StateVersion = nil, s.stateVersion
	}
}

// confirm remembers what the planner has after an answer.
func (s *session) confirm(answer *pb.PlanResponse, sent *internedSnapshot) error {
	if sent != nil {
		s.base, s.baseVersion = sent, answer.SnapshotVersion
	}
	data, err := deterministic.Marshal(answer.GetState())
	s.state, s.stateVersion = data, answer.StateVersion
	return err
}
