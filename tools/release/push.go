package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// target is the destination of images.
type target struct {
	repository string
	insecure   bool
}

// push checks a release and copies its images to a registry, with the credentials that docker,
// podman or crane have stored. It prints the digest of each image, for the chart's image.digests.
func push(ctx context.Context, dir string, to target, out io.Writer) error {
	if _, err := verify(dir, ""); err != nil {
		return err
	}
	for _, image := range imageNames {
		archives, err := filepath.Glob(filepath.Join(dir, image+"-v*"+archiveSuffix))
		if err != nil || len(archives) == 0 {
			return fmt.Errorf("%s: no archive of image %s: want one, or one for each build of it", dir, image)
		}
		for _, archive := range archives {
			tag := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), image+"-"), archiveSuffix)
			ref, err := to.reference(image, tag)
			if err != nil {
				return err
			}
			err = withIndexes(archive, func(index v1.ImageIndex) error { return pushOne(ctx, ref, index, out) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (t target) reference(image, tag string) (name.Reference, error) {
	var opts []name.Option
	if t.insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(strings.TrimSuffix(t.repository, "/")+"/"+image+":"+tag, opts...)
	if err != nil {
		return nil, fmt.Errorf("-to: %w: want a registry and a path, like registry.example/berth", err)
	}
	return ref, nil
}

func pushOne(ctx context.Context, ref name.Reference, index v1.ImageIndex, out io.Writer) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	_, err = fmt.Fprintf(out, "%s@%s\n", ref, digest)
	return err
}
