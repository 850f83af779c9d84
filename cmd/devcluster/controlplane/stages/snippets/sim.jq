# Start of every expression that reads a knob: the annotation wins, then the first variable of that name in any container.
. as $pod
| (.metadata.annotations // {}) as $notes
| (.metadata.labels // {}) as $labels
| [(.spec.initContainers // [])[], .spec.containers[]] as $containers
| def knob($name):
    $notes["sim.nodewright.nvidia.com/" + $name]
    // ([$containers[] | (.env // [])[] | select(.name == "SIM_" + ($name | ascii_upcase)) | .value // ""] | first);
