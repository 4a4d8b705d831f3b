package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/api/berth/v1alpha1"
)

// step is one operation of a JSON patch (RFC 6902).
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// deltaOf returns the steps from the stored status of a report to a new one. No key of a status
// needs escaping in a path.
func deltaOf(before, now *v1alpha1.NodeTopologyStatus) ([]step, error) {
	var values [2]any
	for i, s := range []*v1alpha1.NodeTopologyStatus{before, now} {
		data, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &values[i]); err != nil {
			return nil, err
		}
	}
	return delta("/status", values[0], values[1]), nil
}

func delta(path string, before, now any) []step {
	b, isMap := before.(map[string]any)
	n, both := now.(map[string]any)
	if isMap && both {
		return deltaOfMaps(path, b, n)
	}
	list, isList := before.([]any)
	more, both := now.([]any)
	switch {
	case reflect.DeepEqual(before, now):
		return nil
	case isList && both:
		return deltaOfLists(path, list, more)
	}
	return []step{{"replace", path, now}}
}

func deltaOfMaps(path string, before, now map[string]any) (out []step) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, there := now[key]; !there {
			out = append(out, step{Op: "remove", Path: path + "/" + key})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if old, there := before[key]; there {
			out = append(out, delta(path+"/"+key, old, now[key])...)
		} else {
			out = append(out, step{"add", path + "/" + key, now[key]})
		}
	}
	return out
}

// deltaOfLists removes and inserts items of lists of strings. It compares other lists item by item
// if they have equal lengths.
func deltaOfLists(path string, before, now []any) (out []step) {
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	if !slices.ContainsFunc(slices.Concat(before, now), func(v any) bool { _, text := v.(string); return !text }) {
		left := slices.Clone(before)
		for i := len(left) - 1; i >= 0; i-- {
			if !slices.Contains(now, left[i]) {
				left = slices.Delete(left, i, i+1)
				out = append(out, step{Op: "remove", Path: at(i)})
			}
		}
		for i, v := range now {
			if i == len(left) || left[i] != v {
				left = slices.Insert(left, i, v)
				out = append(out, step{"add", at(i), v})
			}
		}
		if len(left) == len(now) {
			return out
		}
	} else if len(before) == len(now) {
		for i := range now {
			out = append(out, delta(at(i), before[i], now[i])...)
		}
		return out
	}
	return []step{{"replace", path, now}}
}
