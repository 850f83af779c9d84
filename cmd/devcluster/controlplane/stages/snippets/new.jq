.metadata.deletionTimestamp == null and .status.startTime == null and (.status.phase // "Pending") == "Pending"
