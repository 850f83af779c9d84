package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/validate"
)

const modeValidate = "validate"

// checkPackage does `validate [-o json] DIR`: ExitOK also where there are
// warnings, ExitPackage where there are errors, ExitUsage where there is no
// package. It needs neither root nor a host.
func checkPackage(args []string, stdout io.Writer) error {
	asJSON := len(args) == 3 && args[0] == "-o" && args[1] == "json"
	if asJSON {
		args = args[2:]
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return errUsage
	}
	report, err := validate.Dir(args[0])
	if err != nil {
		return exit(ExitUsage, err)
	}
	failures, warnings := report.Count(validate.Error), report.Count(validate.Warning)
	if asJSON {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	} else {
		for _, f := range report.Findings {
			_, _ = fmt.Fprintln(stdout, f)
		}
		_, _ = fmt.Fprintf(stdout, "%s: package %q %q: errors: %d, warnings: %d\n", report.Dir, report.Name, report.Version, failures, warnings)
	}
	if failures > 0 {
		return exit(ExitPackage, fmt.Errorf("package %s is not valid", report.Dir))
	}
	return nil
}

var errUsage = errors.New("wrong arguments")
