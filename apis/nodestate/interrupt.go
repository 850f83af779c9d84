package nodestate

import "slices"

// The types of interrupts.
const (
	InterruptReboot             = "reboot"
	InterruptRestartAllServices = "restartAllServices"
	InterruptService            = "service"
	InterruptNoop               = "noop"
)

// strength orders the types: what a stronger one does includes what a weaker
// one does. Types that are not known are weaker than all.
var strength = map[string]int{
	InterruptReboot:             4,
	InterruptRestartAllServices: 3,
	InterruptService:            2,
	InterruptNoop:               1,
}

// StrongestInterrupt is the one interrupt that does what all of the list do. Of
// type service, it has the services of all in the list of that type, sorted and
// each once; of other types it has none. The list is not changed, and shares
// nothing with the result. ok is false for an empty list.
func StrongestInterrupt(list []Interrupt) (strongest Interrupt, ok bool) {
	if len(list) == 0 {
		return Interrupt{}, false
	}
	strongest.Type = list[0].Type
	for i := range list {
		if strength[list[i].Type] > strength[strongest.Type] {
			strongest.Type = list[i].Type
		}
	}
	if strongest.Type != InterruptService {
		return strongest, true
	}
	for i := range list {
		if list[i].Type == InterruptService {
			strongest.Services = append(strongest.Services, list[i].Services...)
		}
	}
	slices.Sort(strongest.Services)
	strongest.Services = slices.Compact(strongest.Services)
	return strongest, true
}
