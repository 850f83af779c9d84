.metadata.deletionTimestamp == null and .status.startTime != null and (.status.phase == "Pending" or .status.phase == "Running")
