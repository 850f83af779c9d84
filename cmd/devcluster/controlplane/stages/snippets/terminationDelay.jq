@@sim@@
knob("term") as $term
| if $term == null then empty elif $term == "ignore" then .metadata.deletionTimestamp else $term end
