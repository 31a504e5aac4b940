package dockerfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"assay/internal/image"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// metadata executes instructions that change the configuration alone. It
// reports whether c was one.
func (x *execution) metadata(c any) (bool, error) {
	cfg := &x.cfg
	switch c := c.(type) {
	case *instructions.ArgCommand:
		return true, x.vars.declare(c.Args)
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			x.vars.put(kv.Key, kv.Value)
			cfg.Env = replace(cfg.Env, kv.Key, kv.Value)
		}
	case *instructions.LabelCommand:
		cfg.Labels = maps.Clone(cfg.Labels)
		if cfg.Labels == nil {
			cfg.Labels = map[string]string{}
		}
		for _, kv := range c.Labels {
			cfg.Labels[kv.Key] = kv.Value
		}
	case *instructions.MaintainerCommand:
		cfg.Author = c.Maintainer
	case *instructions.UserCommand:
		cfg.User = c.User
	case *instructions.ExposeCommand:
		return true, x.expose(c)
	case *instructions.VolumeCommand:
		cfg.Volumes = merge(cfg.Volumes, c.Volumes)
	case *instructions.StopSignalCommand:
		cfg.StopSignal = c.Signal
		return true, checkSignal(c.Signal)
	case *instructions.ShellCommand:
		cfg.Shell = c.Shell
	case *instructions.HealthCheckCommand:
		h := c.Health
		cfg.Healthcheck = &image.Healthcheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout,
			StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries}
	case *instructions.OnbuildCommand:
		cfg.OnBuild = append(slices.Clone(cfg.OnBuild), c.Expression)
	case *instructions.CmdCommand:
		cfg.Cmd, x.cmdSet = x.withShell(c.ShellDependantCmdLine), true
	case *instructions.EntrypointCommand:
		cfg.Entrypoint = x.withShell(c.ShellDependantCmdLine)
		if !x.cmdSet {
			cfg.Cmd = nil // the base's belongs to the base's entrypoint
		}
	default:
		return false, nil
	}
	return true, nil
}

func (x *execution) withShell(c instructions.ShellDependantCmdLine) []string {
	if !c.PrependShell {
		return c.CmdLine
	}
	shell := x.cfg.Shell
	if len(shell) == 0 {
		shell = []string{"/bin/sh", "-c"}
	}
	return append(slices.Clone(shell), strings.Join(c.CmdLine, " "))
}

// merge adds names to a sorted list.
func merge(list, more []string) []string {
	all := append(slices.Clone(list), more...)
	slices.Sort(all)
	return slices.Compact(all)
}

// expose understands [[IP:]HOST:]PORT[-PORT][/PROTOCOL], of which only the
// container's part counts.
func (x *execution) expose(c *instructions.ExposeCommand) error {
	var ports []string
	for _, word := range c.Ports {
		words, err := x.vars.words(word)
		if err != nil {
			return err
		}
		for _, w := range words {
			p, err := portsOf(w)
			if err != nil {
				return fmt.Errorf("port %q: %w", w, err)
			}
			ports = append(ports, p...)
		}
	}
	x.cfg.Ports = merge(x.cfg.Ports, ports)
	return nil
}

func portsOf(spec string) ([]string, error) {
	spec, proto, has := strings.Cut(spec, "/")
	if proto = strings.ToLower(proto); !has || proto == "" {
		proto = "tcp"
	}
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, proto) {
		return nil, fmt.Errorf("protocol %q is none of tcp, udp and sctp", proto)
	}
	first, last, isRange := strings.Cut(spec[strings.LastIndexByte(spec, ':')+1:], "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a > b {
		return nil, fmt.Errorf("it is no number or range of numbers up to 65535")
	}
	var all []string
	for n := a; n <= b; n++ {
		all = append(all, fmt.Sprintf("%d/%s", n, proto))
	}
	return all, nil
}

// checkSignal accepts a number or a name with or without SIG.
func checkSignal(s string) error {
	if n, err := strconv.Atoi(s); err == nil {
		if n > 0 && n <= 64 {
			return nil
		}
		return fmt.Errorf("there is no signal %d", n)
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	name, _, _ = strings.Cut(strings.ReplaceAll(name, "-", "+"), "+") // RTMIN+1, RTMAX-1
	const known = " ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMIN RTMAX SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ "
	if name == "" || !strings.Contains(known, " "+name+" ") {
		return fmt.Errorf("there is no signal %q", s)
	}
	return nil
}
