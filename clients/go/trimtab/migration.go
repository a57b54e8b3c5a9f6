package trimtab

import (
	"regexp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	migratedPlugins = "storage.alpha.kubernetes.io/migrated-plugins"
	zoneLabel       = corev1.LabelTopologyZone
	regionLabel     = corev1.LabelTopologyRegion
	oldZoneLabel    = corev1.LabelFailureDomainBetaZone
	oldRegionLabel  = corev1.LabelFailureDomainBetaRegion
	severalZones    = "__"

	pluginEBS       = "kubernetes.io/aws-ebs"
	pluginGCE       = "kubernetes.io/gce-pd"
	pluginAzureDisk = "kubernetes.io/azure-disk"
	pluginCinder    = "kubernetes.io/cinder"
)

// driverOf names the driver of each plugin that the scheduler treats as
// migrated.
var driverOf = map[string]string{
	pluginEBS:       "ebs.csi.aws.com",
	pluginGCE:       "pd.csi.storage.gke.io",
	pluginAzureDisk: "disk.csi.azure.com",
	pluginCinder:    "cinder.csi.openstack.org",
}

// driverZones are the labels by which drivers name zones.
var driverZones = map[string]string{
	pluginEBS:    "topology.ebs.csi.aws.com/zone",
	pluginGCE:    "topology.gke.io/zone",
	pluginCinder: "topology.cinder.csi.openstack.org/zone",
}

var ebsVolumeID = regexp.MustCompile(`^aws://[^/]*/+vol-[^/]*/*$`)

func pluginOfDriver(driver string) string {
	for plugin, known := range driverOf {
		if known == driver {
			return plugin
		}
	}
	return ""
}

// migration says which in-tree plugins each node has handed to CSI drivers.
type migration struct {
	nodes    []string
	csiNodes map[string]*storagev1.CSINode
	split    map[string][2][]string
}

// terms returns terms equal to translated on nodes that have migrated the
// plugin and to own on the others; a new node counts as one of the larger part.
func (m *migration) terms(plugin string, own, translated *terms) *terms {
	if own.equal(translated) {
		return own
	}
	parts := m.nodesBy(plugin)
	migrated, others := parts[0], parts[1]
	switch {
	case len(migrated) == 0:
		return own
	case len(others) == 0:
		return translated
	case len(others) <= len(migrated):
		return exceptOn(others, translated, own)
	}
	return exceptOn(migrated, own, translated)
}

func (m *migration) nodesBy(plugin string) [2][]string {
	if found, ok := m.split[plugin]; ok {
		return found
	}
	var parts [2][]string
	names := slices.Clone(m.nodes)
	sort.Strings(names)
	for _, name := range names {
		place := 1
		if slices.Contains(pluginsOf(m.csiNodes[name]), plugin) {
			place = 0
		}
		parts[place] = append(parts[place], name)
	}
	if m.split == nil {
		m.split = map[string][2][]string{}
	}
	m.split[plugin] = parts
	return parts
}

func pluginsOf(csiNode *storagev1.CSINode) []string {
	if csiNode == nil || csiNode.Annotations[migratedPlugins] == "" {
		return nil
	}
	return strings.Split(csiNode.Annotations[migratedPlugins], ",")
}

// pluginOf returns the in-tree plugin of a volume, if nodes migrate it.
func pluginOf(spec *corev1.PersistentVolumeSpec) string {
	switch {
	case spec.AWSElasticBlockStore != nil:
		return pluginEBS
	case spec.GCEPersistentDisk != nil:
		return pluginGCE
	case spec.AzureDisk != nil:
		return pluginAzureDisk
	case spec.Cinder != nil:
		return pluginCinder
	}
	return ""
}

// translatedTerms returns the node affinity of an in-tree volume as its
// driver's; no node meets that of a volume that cannot be translated.
func translatedTerms(plugin string, own *terms, volume *corev1.PersistentVolume) *terms {
	if !isTranslatable(plugin, volume) {
		return &terms{}
	}
	key, ok := driverZones[plugin]
	if !ok {
		return own
	}
	return inDriversTopology(own, volume.Labels, key)
}

func inDriversTopology(own *terms, labels map[string]string, key string) *terms {
	zone, region := topologyOf(own, labels)
	if own.hasValues(zone) {
		own = own.renamed(zone, key)
	} else if zones := zonesOf(labels[zone]); len(zones) > 0 {
		if own == nil || len(own.alternatives) == 0 {
			own = anywhere
		}
		own = own.with(requirement{key, opIn, zones})
	}
	if region == oldRegionLabel && own.hasValues(oldRegionLabel) {
		own = own.renamed(oldRegionLabel, regionLabel)
	}
	return own
}

func zonesOf(label string) []string {
	var zones []string
	for _, zone := range strings.Split(label, severalZones) {
		if zone = strings.TrimSpace(zone); zone != "" {
			zones = append(zones, zone)
		}
	}
	return sortedUnique(zones)
}

// topologyOf returns the labels by which a volume names zone and region.
func topologyOf(own *terms, labels map[string]string) (string, string) {
	has := func(key string) bool { _, ok := labels[key]; return ok }
	if own.names(zoneLabel) || own.names(oldZoneLabel) {
		has = own.names
	}
	if has(oldZoneLabel) && !has(zoneLabel) {
		return oldZoneLabel, oldRegionLabel
	}
	return zoneLabel, regionLabel
}

func isTranslatable(plugin string, volume *corev1.PersistentVolume) bool {
	if plugin == pluginEBS && volume.Spec.AWSElasticBlockStore != nil {
		id := volume.Spec.AWSElasticBlockStore.VolumeID
		return !strings.HasPrefix(id, "aws://") || ebsVolumeID.MatchString(id)
	}
	label := volume.Labels[oldZoneLabel]
	if label == "" {
		label = volume.Labels[zoneLabel]
	}
	zones := strings.Split(label, severalZones)
	if plugin != pluginGCE || len(zones) < 2 {
		return true
	}
	region := ""
	for i, zone := range zones {
		parts := strings.Split(zone, "-")
		if len(parts) != 3 || (i > 0 && parts[0]+"-"+parts[1] != region) {
			return false
		}
		region = parts[0] + "-" + parts[1]
	}
	return true
}

var anywhere = &terms{[]term{{}}}

// exceptOn returns terms equal to there on the named nodes and to usual on all
// others; a field takes one name.
func exceptOn(names []string, usual, there *terms) *terms {
	var elsewhere []requirement
	for _, name := range names {
		elsewhere = append(elsewhere, requirement{nodeNameField, opNotIn, []string{name}})
	}
	out := &terms{}
	for _, one := range usual.or(anywhere).alternatives {
		out.alternatives = append(out.alternatives, term{one.labels, elsewhere})
	}
	for _, name := range names {
		here := []requirement{{nodeNameField, opIn, []string{name}}}
		for _, one := range there.or(anywhere).alternatives {
			out.alternatives = append(out.alternatives, term{one.labels, here})
		}
	}
	return out
}

func (t *terms) or(other *terms) *terms {
	if t == nil {
		return other
	}
	return t
}

func (t *terms) names(key string) bool {
	return t != nil && slices.ContainsFunc(t.alternatives, func(one term) bool {
		return slices.ContainsFunc(one.labels, func(label requirement) bool { return label.key == key })
	})
}

func (t *terms) hasValues(key string) bool {
	return t != nil && slices.ContainsFunc(t.alternatives, func(one term) bool {
		return slices.ContainsFunc(one.labels, func(r requirement) bool { return r.key == key && len(r.values) > 0 })
	})
}

func (t *terms) renamed(from, to string) *terms {
	out := &terms{}
	for _, one := range t.alternatives {
		labels := slices.Clone(one.labels)
		for i := range labels {
			if labels[i].key == from {
				labels[i].key = to
			}
		}
		out.alternatives = append(out.alternatives, term{labels, one.fields})
	}
	return out
}

func (t *terms) with(added requirement) *terms {
	out := &terms{}
	for _, one := range t.alternatives {
		out.alternatives = append(out.alternatives, term{append(slices.Clone(one.labels), added), one.fields})
	}
	return out
}
