package task

// Config is task.toml.
type Config struct{}

// Environment is the [environment] table.
type Environment struct{}

// MCPServer is one [[environment.mcp_servers]] entry.
type MCPServer struct{}

// CollectHook is one [[verifier.collect]] entry.
type CollectHook struct{}

// Artifact is one artifacts entry.
type Artifact struct{}
