package main

// Answers is what the Cluster Autoscaler said of one document.
type Answers struct {
	Name string `json:"name"`
	// Runs: the first with the candidates in the document's order, the others shuffled.
	Runs []Answer `json:"runs,omitempty"`
	// Growth: instead of the runs, those of scale-up; the first with the pods in the document's order.
	Growth []Growth `json:"growth,omitempty"`
}

// Growth is what came of one loop after another until one added nothing more.
type Growth struct {
	// Groups: by how many nodes each has grown in the end.
	Groups map[string]int `json:"groups"`
	// Waiting: "namespace/name" of the pods that fitted no node in the first loop.
	Waiting []string `json:"waiting"`
	// Pending: those that fit no node in the end, those that were asked for included.
	Pending []string     `json:"pending"`
	Loops   []GrowthLoop `json:"loops"`
	Ms      float64      `json:"ms"`
}

// GrowthLoop is one loop that added nodes.
type GrowthLoop struct {
	// Waiting: how many pods fitted no node.
	Waiting int            `json:"waiting"`
	Options []GrowthOption `json:"options"`
	Chosen  string         `json:"chosen"`
	// Splits: nodes added by group, those of the chosen group and of similar ones.
	Splits map[string]int `json:"splits"`
}

// GrowthOption is what the expanders chose among.
type GrowthOption struct {
	Group string `json:"group"`
	Nodes int    `json:"nodes"`
	Pods  int    `json:"pods"`
}

// Answer is that of one loop. Reasons are simulator.UnremovableReason by number, blocking reasons drain.BlockingPodReason.
type Answer struct {
	// Unneeded nodes; Empty and Drain are those of them that may go at once (NodesToDelete), limits of parallelism aside.
	Unneeded []string `json:"unneeded"`
	Empty    []string `json:"empty"`
	Drain    []string `json:"drain"`
	// Unremovable: why a node is not unneeded.
	Unremovable map[string]Reason `json:"unremovable"`
	// Passed: nodes that are not looked at, so without a reason: of no group, of a group at its minimum, being deleted.
	Passed []string `json:"passed,omitempty"`
	// Waiting: why an unneeded node does not go at once.
	Waiting map[string]int `json:"waiting,omitempty"`
	// Places: where each moved pod ends, as simulated.
	Places map[string]string `json:"places,omitempty"`
	// Pending: where pending pods were put first.
	Pending map[string]string `json:"pending,omitempty"`
	Ms      float64           `json:"ms"`
	WholeMs float64           `json:"wholeMs"`
}

// Reason says why a node stays, and which pod ("namespace/name") is in the way.
type Reason struct {
	Reason   int    `json:"reason"`
	Pod      string `json:"pod,omitempty"`
	Blocking int    `json:"blocking,omitempty"`
}
