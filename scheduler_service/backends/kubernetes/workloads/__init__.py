"""What the API makes for people: pods, Jobs and other kinds, by rules that the cluster's owner writes."""
