// Command release makes the files of a release of Berth from a tree of its sources: static
// binaries, images as OCI archives, the chart, krew's manifest, checksums, a list of the binaries'
// modules, and provenance. It needs the Go toolchain and its module proxy, and no container engine.
// Equal sources give equal files.
//
//	go -C tools/release run . build -source ../.. -version v0.1.0 -out ../../bin/release/v0.1.0
//	go -C tools/release run . sign -key minisign.key ../../bin/release/v0.1.0
//	go -C tools/release run . verify -public-key minisign.pub ../../bin/release/v0.1.0
//	go -C tools/release run . push -to registry.example/berth ../../bin/release/v0.1.0
//
// make release, make release-verify and make push call it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1)
	}
}

// verbs are the commands of the program.
var verbs = map[string]func(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error{
	"build": buildVerb, "sign": signVerb, "verify": verifyVerb, "push": pushVerb,
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || verbs[args[0]] == nil {
		return fmt.Errorf("%q: want one of build, sign, verify, push", strings.Join(args, " "))
	}
	f := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	return verbs[args[0]](ctx, f, args[1:], stdout)
}

func buildVerb(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	r := release{progress: out}
	f.StringVar(&r.source, "source", "../..", "tree of Berth's sources")
	f.StringVar(&r.out, "out", "", "folder to write to; its content is replaced")
	f.StringVar(&r.version, "version", "", "version of the release, like v0.1.0")
	f.StringVar(&r.commit, "commit", "", "commit of the sources, for the images' labels")
	f.StringVar(&r.url, "url", placeholderURL, "where the folders of releases are fetched from, for krew's manifest: a placeholder unless it is given")
	f.StringVar(&r.ldflags, "ldflags", "-s -w", "flags of the linker, which set the version of the binaries")
	epoch := f.Int64("time", 0, "time of every file in an archive, in seconds since 1970: the commit's time")
	f.Var(&r.platforms, "platforms", "platforms to build for, separated by commas; by default all platforms of a release")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	r.setTime(*epoch)
	if err := r.check(); err != nil {
		return err
	}
	return r.build(ctx)
}

// signVerb signs a release that verify accepts.
func signVerb(_ context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	key := f.String("key", "", "file with a secret key of minisign; its password, if any, is read from "+passwordVariable)
	if err := parse(f, args, 1); err != nil {
		return err
	}
	if *key == "" {
		return errors.New("-key: want a file with a secret key, made by minisign -G")
	}
	dir := f.Arg(0)
	if _, err := verify(dir, ""); err != nil {
		return err
	}
	if err := sign(dir, *key, os.Getenv(passwordVariable)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: signed\n", filepath.Join(dir, signatureFile))
	return nil
}

func verifyVerb(_ context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	publicKey := f.String("public-key", "", "file with minisign's public key that must have signed the release; without it the signature is not checked")
	if err := parse(f, args, 1); err != nil {
		return err
	}
	count, err := verify(f.Arg(0), *publicKey)
	if err != nil {
		return err
	}
	signed := "the provenance lists them; no public key was given, so the signature was not checked"
	if *publicKey != "" {
		signed = "the provenance lists them, and the signature is by the public key"
	}
	fmt.Fprintf(out, "%s: %d files are intact; %s\n", f.Arg(0), count, signed)
	return nil
}

func pushVerb(ctx context.Context, f *flag.FlagSet, args []string, out io.Writer) error {
	to := f.String("to", "", "registry and path of the images, like registry.example/berth")
	plain := f.Bool("insecure", false, "allow a registry without TLS")
	if err := parse(f, args, 1); err != nil {
		return err
	}
	if *to == "" {
		return errors.New("-to: want the registry and path to push to, like registry.example/berth")
	}
	return push(ctx, f.Arg(0), target{*to, *plain}, out)
}

// parse parses the flags, and requires this many other arguments.
func parse(f *flag.FlagSet, args []string, want int) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != want {
		return fmt.Errorf("%s: arguments %q: want exactly %d", f.Name(), strings.Join(f.Args(), " "), want)
	}
	return nil
}
