package hostile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileAttackers fill and spoil trees.
func fileAttackers() tries {
	fill := func(path string, most int) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		b := make([]byte, 1<<20)
		for i := range most {
			if _, err := f.Write(b); err != nil {
				return fmt.Errorf("after %d MiB: %w", i, err)
			}
		}
		return nil
	}
	return tries{
		"fill the disk":          plain(func() error { return fill("/fill", 80) }),
		"fill the shared memory": plain(func() error { return fill("/dev/shm/fill", 100) }),
		"fill the inodes": plain(func() error {
			if err := os.Mkdir("/many", 0o755); err != nil {
				return err
			}
			for i := range 12000 {
				if err := os.WriteFile(fmt.Sprint("/many/", i), nil, 0o644); err != nil {
					return fmt.Errorf("after %d files: %w", i, err)
				}
			}
			return nil
		}),
		// What the host then copies.
		"grow a sparse file": func(args []string) error {
			f, err := os.Create("/sparse")
			if err == nil {
				err = f.Truncate(1 << 40)
				f.Close()
			}
			if err != nil {
				return err
			}
			return nil
		},
		"dig deep": func([]string) error {
			if err := os.Mkdir("/deep", 0o755); err != nil {
				return err
			}
			if err := os.Chdir("/deep"); err != nil {
				return err
			}
			const name = "a-directory-with-a-longer-name"
			for i := range 600 {
				if err := os.Mkdir(name, 0o755); err != nil {
					return fmt.Errorf("level %d: %w", i, err)
				}
				if err := unix.Chdir(name); err != nil {
					return fmt.Errorf("level %d: %w", i, err)
				}
			}
			return nil
		},
		"plant rings": func([]string) error {
			return errors.Join(os.Mkdir("/desk", 0o777), os.Symlink("b", "/desk/a"), os.Symlink("a", "/desk/b"), os.Symlink("self", "/desk/self"))
		},
		"plant links": func(args []string) error {
			return errors.Join(os.Mkdir("/desk", 0o777), os.Symlink(args[0], "/desk/out"),
				os.Symlink("/host"+args[0], "/desk/keeper"), os.Symlink("/host"+args[0]+"/planted", "/desk/file"))
		},
	}
}

// swappers change a tree for as long as they live. The names of what they swap
// are in arguments: what the host may see, and where it must not be led.
func swappers() tries {
	swap := func(prepare func(args []string) error) func(args []string) error {
		return func(args []string) error {
			if err := os.Mkdir("/race", 0o777); err != nil {
				return err
			}
			if err := prepare(args); err != nil {
				return err
			}
			fmt.Println("ready")
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				for range 100 {
					_ = unix.Renameat2(unix.AT_FDCWD, "/race/x", unix.AT_FDCWD, "/race/y", unix.RENAME_EXCHANGE)
				}
			}
			return errors.New("time is up")
		}
	}
	return tries{
		"swap file and link": swap(func(a []string) error {
			return errors.Join(os.WriteFile("/race/x", []byte("harmless"), 0o666), os.Symlink("/host"+a[0]+"/secret", "/race/y"))
		}),
		"swap directory and link": swap(func(a []string) error {
			return errors.Join(os.Mkdir("/race/x", 0o777), os.Symlink("/host"+a[0], "/race/y"), os.WriteFile("/race/x/secret", []byte("harmless"), 0o666))
		}),
		"swap file and pipe": swap(func([]string) error {
			return errors.Join(os.WriteFile("/race/x", []byte("harmless"), 0o666), unix.Mkfifo("/race/y", 0o666))
		}),
		"grow and shrink": func([]string) error {
			f, err := os.Create("/growing")
			if err != nil {
				return err
			}
			fmt.Println("ready")
			b := make([]byte, 64<<10)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				for range 200 {
					_, _ = f.Write(b)
				}
				_ = f.Truncate(1)
				_, _ = f.Seek(0, 0)
			}
			return errors.New("time is up")
		},
	}
}
