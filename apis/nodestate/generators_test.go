package nodestate_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
)

var versions = []string{"1.2.3", "v1.2.3", "1.2", "1", "2.0.0-RC.1", "1.2.3+build.7", "v0.0.1-alpha+B"}

// drawText gives what people and programs write: quotes, line breaks, HTML,
// other alphabets (CL-02), within limit bytes.
func drawText(t *rapid.T, label string, limit int) string {
	s := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"", `say "no"`, `C:\x`, "a\nb\tc", "ünïcödé 日本 😀", "<a&b>", "\u2028\x00\x1b[0m", `{"a":1}`}),
	).Draw(t, label)
	return nodestate.CapString(s, limit)
}

func drawTime(t *rapid.T, label string) time.Time {
	return time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, label), 0).UTC()
}

func drawStatus(t *rapid.T, ref nodestate.PackageRef) nodestate.PackageStatus {
	failures := rapid.Int32Min(0).Draw(t, "failures")
	s := nodestate.PackageStatus{
		Attempt:      rapid.Int32Min(0).Draw(t, "attempt"),
		BootID:       drawText(t, "bootID", 64),
		Carrier:      rapid.SampledFrom([]string{"", "other"}).Draw(t, "carrier"),
		ConfigHash:   rapid.StringMatching(`[a-f0-9]{0,16}`).Draw(t, "configHash"),
		ContainerSHA: rapid.SampledFrom([]string{"", "sha256:00ff"}).Draw(t, "containerSHA"),
		Failures:     failures,
		Image:        drawText(t, "image", 128),
		Message:      drawText(t, "message", nodestate.MaxMessage),
		Name:         ref.Package,
		NodeWright:   ref.NodeWright,
		Reason:       drawText(t, "reason", 32),
		Restarts:     failures,
		Rollout:      rapid.StringMatching(`[a-f0-9]{0,16}`).Draw(t, "rollout"),
		Run:          rapid.Int64Range(0, nodestate.MaxSeq).Draw(t, "run"),
		Since:        nodestate.FormatTime(drawTime(t, "since")),
		SpecHash:     rapid.StringMatching(`[a-f0-9]{0,10}`).Draw(t, "specHash"),
		Stage:        rapid.SampledFrom(nodestate.Stages()).Draw(t, "stage"),
		State:        rapid.SampledFrom(nodestate.States()).Draw(t, "state"),
		UID:          rapid.StringMatching(`[-a-f0-9]{0,36}`).Draw(t, "uid"),
		Version:      rapid.SampledFrom(versions).Draw(t, "version"),
	}
	if rapid.Bool().Draw(t, "interrupt") {
		s.Interrupt = &nodestate.Interrupt{Type: "service", Services: []string{"a.service", drawText(t, "service", 32)}}
	}
	for range rapid.IntRange(0, nodestate.MaxPrevious).Draw(t, "previous") {
		s.Previous = append(s.Previous, nodestate.PreviousVersion{Image: "r/p", Version: "1.0.0"})
	}
	return s
}

func drawJobReport(t *rapid.T, ref nodestate.PackageRef) nodestate.JobReport {
	r := nodestate.JobReport{
		Attempt:    rapid.Int32Min(0).Draw(t, "attempt"),
		FinishedAt: nodestate.FormatTime(drawTime(t, "finished")),
		Harmless:   rapid.Bool().Draw(t, "harmless"),
		Job:        "driver-apply-abcdefghijklmnop",
		LogTail:    drawText(t, "logTail", nodestate.MaxLogTail),
		Message:    drawText(t, "message", nodestate.MaxMessage),
		Name:       ref.Package,
		NodeWright: ref.NodeWright,
		Reason:     "Error",
		Run:        rapid.Int64Range(0, nodestate.MaxSeq).Draw(t, "run"),
		Stage:      rapid.SampledFrom(nodestate.Stages()).Draw(t, "stage"),
		Version:    rapid.SampledFrom(versions).Draw(t, "version"),
	}
	if rapid.Bool().Draw(t, "ran") {
		code := rapid.Int32().Draw(t, "exitCode")
		r.ExitCode = &code
	}
	return r
}

func drawPodReport(t *rapid.T, ref nodestate.PackageRef) nodestate.PodReport {
	return nodestate.PodReport{
		Job:          "driver-apply-abcdefghijklmnop",
		Message:      drawText(t, "message", nodestate.MaxMessage),
		Name:         ref.Package,
		NodeWright:   ref.NodeWright,
		Pod:          "driver-apply-abcdefghijklmnop-xyz12",
		Reason:       "ImagePullBackOff",
		WaitingSince: nodestate.FormatTime(drawTime(t, "waiting")),
	}
}

func drawRefs(t *rapid.T) []nodestate.PackageRef {
	seen := map[nodestate.PackageRef]bool{}
	var refs []nodestate.PackageRef
	for range rapid.IntRange(0, 4).Draw(t, "refs") {
		ref := nodestate.PackageRef{NodeWright: drawNodeWright(t, "nodewright"), Package: drawPackage(t, "package")}
		if !seen[ref] {
			seen[ref] = true
			refs = append(refs, ref)
		}
	}
	return refs
}

// drawSet gives a set of one owner, and the names of the NodeWrights in it.
func drawSet(t *rapid.T, owner nodestate.Owner) (nodestate.Set, []string) {
	var set nodestate.Set
	var names []string
	switch owner {
	case nodestate.OwnerNode:
		for _, ref := range drawRefs(t) {
			put(&set.Packages, ref, drawStatus(t, ref))
			names = append(names, ref.NodeWright)
		}
		for range rapid.IntRange(0, 3).Draw(t, "nodewrights") {
			nw := drawNodeWright(t, "nodewright")
			names = append(names, nw)
			put(&set.Status, nw, rapid.SampledFrom(nodestate.StatusWords()).Draw(t, "word"))
			put(&set.Slots, nw, nodestate.Slot{
				ID: "17", NodeWright: nw, Reason: drawText(t, "reason", 32),
				State: rapid.SampledFrom([]nodestate.SlotState{nodestate.SlotWorking, nodestate.SlotReleased}).Draw(t, "slot"),
			})
			put(&set.Cordons, nw, drawTime(t, "cordon"))
			put(&set.DrainStarts, nw, drawTime(t, "drain"))
			put(&set.Handled, nw, []string{"a", "b" + drawText(t, "id", 16)})
			put(&set.LegacySeen, nw, nodestate.BlobHash(nw))
		}
	case nodestate.OwnerJob:
		for _, ref := range drawRefs(t) {
			put(&set.JobReports, ref, drawJobReport(t, ref))
		}
	case nodestate.OwnerPod:
		for _, ref := range drawRefs(t) {
			put(&set.PodReports, ref, drawPodReport(t, ref))
		}
	case nodestate.OwnerRollout:
		for _, ref := range drawRefs(t) {
			put(&set.Batches, ref.NodeWright, nodestate.Batch{
				Batch: 1, Compartment: "__default__", ID: "3", NodeWright: ref.NodeWright,
				Order: rapid.Int32Min(0).Draw(t, "order"), Rollout: "r1", UID: "u1",
			})
		}
	case nodestate.OwnerMigration:
		for _, ref := range drawRefs(t) {
			names = append(names, ref.NodeWright)
			put(&set.Legacy, ref.NodeWright, nodestate.LegacyPruned)
			if len(ref.NodeWright) <= nodestate.MaxNameLength-len("nodeState_") {
				put(&set.Blobs, ref.NodeWright, `{"pa|1":`+drawText(t, "blob", 64))
			}
		}
	}
	return set, names
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
