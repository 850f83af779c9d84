package app

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	configv1alpha1 "github.com/nodewright/nodewright/apis/config/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

// namespaceEnv names the operator's namespace, as the downward API gives it.
const namespaceEnv = "POD_NAMESPACE"

// serviceAccountEnv names the manager's own service account, as the downward API
// gives it.
const serviceAccountEnv = "POD_SERVICE_ACCOUNT"

// defaultServiceAccount is the account that config ships.
const defaultServiceAccount = "nodewright-manager"

// options are the flags: what belongs to the process, not to the operator.
type options struct {
	configFile string
	kubeconfig string
	namespace  string
	// managerAccount is who the manager is, packageAccount who package pods are.
	managerAccount string
	packageAccount string
	logFormat      string
	logLevel       int
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.StringVar(&o.configFile, "config", "", "file with the configuration (config.nodewright.nvidia.com/v1alpha1); required")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "file to reach the API server with; default is the pod's service account, else $KUBECONFIG")
	flags.StringVar(&o.namespace, "namespace", os.Getenv(namespaceEnv), "namespace of the operator and of package Jobs; default $"+namespaceEnv)
	flags.StringVar(&o.managerAccount, "service-account", cmp.Or(os.Getenv(serviceAccountEnv), defaultServiceAccount),
		"service account of the manager, by which admission knows its writes; default $"+serviceAccountEnv+", else "+defaultServiceAccount)
	flags.StringVar(&o.packageAccount, "package-service-account", "", "service account of package pods, without rights; default is the namespace's default")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or console")
	flags.IntVar(&o.logLevel, "log-level", 0, "0 shows changes of state, 2 how they came about, 4 details")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.check(flags.Args())
}

func (o *options) check(rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unknown arguments %q", rest))
	}
	if o.configFile == "" {
		errs = append(errs, errors.New("--config is required"))
	}
	if problems := utilvalidation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace (or $%s) %q: %s", namespaceEnv, o.namespace, strings.Join(problems, "; ")))
	}
	if problems := utilvalidation.IsDNS1123Subdomain(o.managerAccount); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--service-account (or $%s) %q: %s", serviceAccountEnv, o.managerAccount, strings.Join(problems, "; ")))
	}
	if o.logFormat != "json" && o.logFormat != "console" {
		errs = append(errs, fmt.Errorf("--log-format is %q, it must be json or console", o.logFormat))
	}
	if o.logLevel < 0 || o.logLevel > 10 {
		errs = append(errs, fmt.Errorf("--log-level is %d, it must be 0 to 10", o.logLevel))
	}
	return errors.Join(errs...)
}

// loadConfiguration reads the file and refuses what is wrong in it, all at
// once.
func (o *options) loadConfiguration() (*configv1alpha1.ManagerConfiguration, error) {
	data, err := os.ReadFile(o.configFile)
	if err != nil {
		return nil, fmt.Errorf("read --config: %w", err)
	}
	c, err := configv1alpha1.Load(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.configFile, err)
	}
	if errs := validation.ManagerConfiguration(c); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", o.configFile, errs.ToAggregate())
	}
	return c, nil
}

func (o *options) logger() (logr.Logger, error) {
	config := zap.NewProductionConfig()
	if o.logFormat == "console" {
		config.Encoding = "console"
		config.EncoderConfig = zap.NewDevelopmentEncoderConfig()
	}
	config.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	config.DisableStacktrace = true
	config.Sampling = nil
	// logr level n is zap level -n.
	config.Level = zap.NewAtomicLevelAt(zapcore.Level(-o.logLevel)) //nolint:gosec // 0 to 10
	l, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("set up logs: %w", err)
	}
	return zapr.NewLogger(l), nil
}
