package validation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// MinStageTimeout is the shortest bound of an attempt: Jobs count in whole
	// seconds.
	MinStageTimeout = time.Second
	// MaxSeconds is the most that fields of Jobs and pods take, in seconds.
	MaxSeconds = 2147483647
	// MaxDuration is MaxSeconds as a duration.
	MaxDuration = MaxSeconds * time.Second
	// MinJobTTL is the shortest time that a finished Job is kept: one that goes
	// earlier may not have been recorded.
	MinJobTTL = time.Minute
	// MaxRetryLimit is the most retries of a stage.
	MaxRetryLimit = 100
)

// StageTimeout checks the time bound of an attempt: 0 for none, else
// MinStageTimeout to MaxDuration.
func StageTimeout(path *field.Path, d time.Duration) field.ErrorList {
	switch {
	case d == 0:
		return nil
	case d < 0:
		return invalid(path, d, "must not be negative; 0 means no time bound")
	case d < MinStageTimeout:
		return invalid(path, d, "must be at least 1s, since Jobs count whole seconds; 0 means no time bound")
	case d > MaxDuration:
		return invalid(path, d, fmt.Sprintf("must be at most %ds, the most that a Job takes; 0 means no time bound", MaxSeconds))
	}
	return nil
}

// JobTTL checks how long finished Jobs are kept: MinJobTTL to MaxDuration.
// There is no value that switches it off.
func JobTTL(path *field.Path, d time.Duration) field.ErrorList {
	switch {
	case d < MinJobTTL:
		return invalid(path, d, "must be at least 1m: a Job that goes earlier may not have been recorded; it cannot be switched off")
	case d > MaxDuration:
		return invalid(path, d, fmt.Sprintf("must be at most %ds, the most that a Job takes", MaxSeconds))
	}
	return nil
}

// RetryLimit checks the number of retries of a stage.
func RetryLimit(path *field.Path, limit int32) field.ErrorList {
	if limit < 0 || limit > MaxRetryLimit {
		return field.ErrorList{field.Invalid(path, limit, fmt.Sprintf("must be 0 to %d; 0 means that the first failure is final", MaxRetryLimit))}
	}
	return nil
}

func invalid(path *field.Path, d time.Duration, detail string) field.ErrorList {
	return field.ErrorList{field.Invalid(path, d.String(), detail)}
}
