# Whether the pod carries an interrupt that reboots: the agent's fourth argument is base64 of a JSON document with its type.
[
  (.spec.initContainers // [])[], .spec.containers[]
  | .args // [] | select(.[0] == "interrupt") | .[3] // ""
  | try (@base64d | fromjson | .type) catch ""
] | index("node_restart") != null
