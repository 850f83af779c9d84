package interrupt

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestCommands(t *testing.T) {
	for text, want := range map[string][][]string{
		`{"type":"no_op"}`: nil,
		`{"type":"service_restart","services":["b.service","a@1"]}`: {
			{"systemctl", "daemon-reload"}, {"systemctl", "restart", "b.service"}, {"systemctl", "restart", "a@1"}},
		`{"type":"service_restart","services":[]}`: {{"systemctl", "daemon-reload"}},
		`{"type":"restart_all_services"}`:          {{"service", "procps", "force-reload"}},
		`{"type":"node_restart","more":1}`:         {{"reboot"}},
	} {
		i, err := Decode(encode(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, i.Commands()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestErrorsSayWhatIsValid(t *testing.T) {
	for data, want := range map[string]string{
		"%":                                   "not base64",
		encode("{"):                           "not a JSON object",
		encode("[]"):                          "not a JSON object",
		encode(`{"type":"no_op"} {}`):         "more than one",
		encode(`{}`):                          "type: is missing, want one of no_op",
		encode(`{"Type":"no_op"}`):            "type: is missing",
		encode(`{"type":1}`):                  "type: is not a string, want one of",
		encode(`{"type":"script_interrupt"}`): `type: "script_interrupt" is not known, want one of no_op`,
		encode(`{"type":"service_restart"}`):  "services: is missing",
		encode(`{"type":"service_restart","services":null}`):     "services: is not a list",
		encode(`{"type":"service_restart","services":"a"}`):      "services: is not a list",
		encode(`{"type":"service_restart","services":[null]}`):   "services[0]: ",
		encode(`{"type":"service_restart","services":["a",""]}`): "services[1]: ",
		encode(`{"type":"service_restart","services":["--x"]}`):  "services[0]: ",
		encode(`{"type":"service_restart","services":["a b"]}`):  "services[0]: ",
		strings.Repeat("A", MaxSize+1):                           "at most",
	} {
		if _, err := Decode(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want %s", data, err, want)
		}
	}
}

// FuzzInterrupt must not panic, and runs nothing but what is written above.
func FuzzInterrupt(f *testing.F) {
	f.Add(encode(`{"type":"service_restart","services":["kubelet.service"]}`))
	f.Add(encode(`{"type":"node_restart"}`))
	f.Add(encode(`{"type":"no_op","services":null}`))
	f.Add("e30=")
	f.Fuzz(func(t *testing.T, data string) {
		i, err := Decode(data)
		if err != nil {
			return
		}
		for _, c := range i.Commands() {
			switch strings.Join(c[:min(2, len(c))], " ") {
			case "reboot", "service procps", "systemctl daemon-reload":
			case "systemctl restart":
				if len(c) != 3 || strings.HasPrefix(c[2], "-") || strings.ContainsAny(c[2], " /\x00\n") {
					t.Fatalf("command %q", c)
				}
			default:
				t.Fatalf("command %q", c)
			}
		}
	})
}
