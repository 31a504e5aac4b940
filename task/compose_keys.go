package task

// What a Compose file may ask for, by key. Everything that is in none of these
// tables is refused by name: a key that nobody thought of may be a way out.

// composeIgnored are keys of a service without a meaning for a trial.
func composeIgnored(name string) bool {
	switch name {
	case "annotations", "attach", "container_name", "develop", "expose", "init", "label_file", "labels", "logging",
		"memswap_limit", "mem_reservation", "mem_swappiness", "oom_score_adj", "pull_policy", "pull_refresh_after", "stdin_open",
		"stop_grace_period", "stop_signal", "tty", "profiles", "cpu_shares", "cpu_quota", "cpu_period", "platform", "ulimits":
		return true
	}
	return false
}

// composeNoted are keys that are left out, aloud.
func composeNoted(name string) string {
	switch name {
	case "ports":
		return "no port of this machine is opened: services reach each other by name"
	case "read_only":
		return "its tree can be written"
	case "cap_drop":
		return "it keeps the default capabilities, which are few"
	}
	return ""
}

// composeRefused says why a key is refused.
func composeRefused(name string) string {
	const walls = "it takes a wall of the container down; a task has to do without"
	switch name {
	case "privileged", "pid", "ipc", "uts", "userns_mode", "cgroup", "cgroup_parent", "devices", "device_cgroup_rules", "runtime",
		"security_opt", "use_api_socket", "oom_kill_disable", "isolation", "credential_spec", "gpus", "storage_opt", "cpu_rt_runtime", "cpu_rt_period":
		return walls
	case "network_mode":
		return "services have one network of their trial's own, or none"
	case "extends", "provider", "external_links", "volumes_from":
		return "is not read; write what it stands for into this service"
	case "secrets", "configs":
		return "is not supported; mount the file of the task as a volume"
	case "dns", "dns_search", "dns_opt", "domainname", "mac_address":
		return "names and addresses are those of the trial's network"
	case "scale":
		return "a service runs once"
	case "group_add":
		return "is not supported; name the group in user, as \"user:group\""
	}
	return "is not known here, and nothing is done that is not known"
}
