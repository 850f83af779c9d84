# What becomes of a pod. A stage is what the agent gets as its first argument, or what the label or annotation says.
@@sim@@
try (
  (if any($containers[]; .image | test("/missing/|:9\\.9\\.9$")) then "start-error" else "succeed" end) as $byImage
  | ($labels["nodewright.nvidia.com/attempt"] // $notes["nodewright.nvidia.com/attempt"] // "1" | tonumber) as $attempt
  | ($labels["nodewright.nvidia.com/stage"] // $notes["nodewright.nvidia.com/stage"]
     // ([$containers[] | .args // [] | select(.[1] == "/root") | .[0]] | first) // "") as $stage
  | if knob("outcome") == null then $byImage
    elif knob("nodes") != null and ($pod.spec.nodeName | test(knob("nodes")) | not) then $byImage
    elif knob("stages") != null and ($stage | test(knob("stages")) | not) then $byImage
    elif knob("attempts") != null and (knob("attempts") | tonumber) < $attempt then $byImage
    else knob("outcome") end
) catch "invalid"
