.status.conditions[]? | select(.type == "Ready") | .status
