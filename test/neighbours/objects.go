package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func readObjects(path string) (objects []*unstructured.Unstructured, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return objectsIn(path, data)
}

// objectsIn reads YAML documents; path is for errors.
func objectsIn(path string, data []byte) (objects []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(text, &o.Object)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// claim is a PersistentVolumeClaim.
func claim(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
	}}
}

// podsOf returns how many pods the objects create at once.
func podsOf(objects []*unstructured.Unstructured) (n int) {
	for _, o := range objects {
		switch o.GetKind() {
		case "Pod", "CronJob":
			n++
		case "Deployment", "ReplicaSet":
			count, _, _ := unstructured.NestedFloat64(o.Object, "spec", "replicas") // YAML decodes numbers as float64
			n += int(count)
		case "Job":
			count, _, _ := unstructured.NestedFloat64(o.Object, "spec", "parallelism")
			n += int(count)
		}
	}
	return n
}
