package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/simulate"
)

// lists writes a list of nodes and a list of pods, and returns the flags that name them.
func lists(t *testing.T) (dir string, flags []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"nodes": "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,4,T4\nb,96000,262144,8,A10\n",
		"pods":  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,4000,4096,1,500,\nq,8000,8192,2,1000,A10\nr,2000,2048,0,0,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, []string{"--nodes", filepath.Join(dir, "nodes"), "--trace", filepath.Join(dir, "pods")}
}

func played(t *testing.T, args []string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out, io.Discard)
	return out.String(), err
}

func TestPlay(t *testing.T) {
	_, flags := lists(t)
	ask := append([]string{"--arrive", "1.3", "--seeds", "3", "--strategy", "BestFit,FGD"}, flags...)
	text, err := played(t, ask)
	if err != nil || !strings.Contains(text, "\nBestFit") || !strings.Contains(text, "\nFGD") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = played(t, append([]string{"-o", "json"}, ask...))
	again, _ := played(t, append([]string{"-o", "json"}, ask...))
	var got struct {
		Nodes, Pods int
		Seeds       []int64
		Strategies  []simulate.Summary
	}
	if json.Unmarshal([]byte(text), &got) != nil || err != nil || text != again {
		t.Fatalf("%v; twice the same: %t", err, text == again)
	}
	if got.Nodes != 2 || got.Pods != 3 || len(got.Seeds) != 3 || len(got.Strategies) != 2 || got.Strategies[0].Runs != 3 || got.Strategies[0].GPUs.Mean < 50 || got.Strategies[0].Unused == nil {
		t.Errorf("%+v", got)
	}
}

// TestPlayTimed: pods arrive and end, and are moved.
func TestPlayTimed(t *testing.T) {
	_, flags := lists(t)
	text, err := played(t, append([]string{"--load", "0.8", "--hours", "2", "--overlay", "sockets/restricted", "--strategy", "KAI,Berth", "--defrag", "1h"}, flags...))
	if err != nil || !strings.Contains(text, "\nBerth, defrag 1h") || !strings.Contains(text, "WAITING P50") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestPlayPage: the page names the lists without their folders, and the command that made it.
func TestPlayPage(t *testing.T) {
	dir, flags := lists(t)
	text, err := played(t, append([]string{"-o", "html", "--seeds", "2", "--overlay", "sockets/restricted", "--strategy", "KAI,Berth"}, flags...))
	if err != nil || !strings.HasPrefix(text, "<!DOCTYPE html>") || strings.Contains(text, dir) || !strings.Contains(text, "data:image/png") {
		t.Errorf("%v\n%s", err, text)
	}
	const command = "play -nodes=nodes -o=html -overlay=sockets/restricted -seeds=2 -strategy=KAI,Berth -trace=pods"
	if !strings.Contains(text, command) {
		t.Errorf("want %q in\n%s", command, text)
	}
	timed, err := played(t, append([]string{"-o", "html", "--load", "0.8", "--hours", "2", "--overlay", "sockets/restricted", "--strategy", "KAI,Berth"}, flags...))
	if err != nil || !strings.Contains(timed, "How long pods wait") || strings.Contains(timed, "NaN") {
		t.Errorf("with times: %v\n%s", err, timed)
	}
}

// TestPlayRefuses: the error names the flag, or file, line and field.
func TestPlayRefuses(t *testing.T) {
	dir, flags := lists(t)
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bad := write("bad", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,-1,1,0,0\n")
	gangs := write("gangs", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,members\ng,1,1,0,0,3\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "-trace: want a file with pods"},
		{[]string{"--trace", bad}, "-nodes: want a file with nodes"},
		{append(flags, "more"), "want flags only"},
		{append(flags, "-o", "yaml"), "-o \"yaml\": want table"},
		{append(flags, "--arrive", "-1"), "-arrive -1: want 0 to 10"},
		{append(flags, "--arrive", "NaN"), "-arrive NaN: want 0 to 10"},
		{append(flags, "--seeds", "0"), "-seeds 0: want 1 to 1000"},
		{append(flags, "--strategy", "BestFi"), "did you mean"},
		{append(flags, "--strategy", "Berth"), "-strategy Berth: want -overlay too: the strategy needs NUMA nodes"},
		{append(flags, "--overlay", "sockets"), "want sockets/restricted"},
		{append(flags, "--trace", "synthetic:telko"), "did you mean \"telco\""},
		{append(flags, "--load", "0.9", "--arrive", "1.3"), "-arrive: want this flag without -load"},
		{append(flags, "--load", "0.9", "--timed"), "-timed: want this flag without -load"},
		{append(flags, "--load", "0"), "-load 0: want more than 0, and at most 10"},
		{append(flags, "--load", "NaN"), "-load NaN: want more than 0"},
		{append(flags, "--hours", "5"), "-hours: want -load too"},
		{append(flags, "--load", "0.9", "--hours", "0"), "-hours 0: want 0.1 to 8760"},
		{append(flags, "--defrag", "1h"), "-defrag: want -load or -timed too"},
		{append(flags, "--load", "0.9", "--defrag", "1s"), "-defrag 1s: want at least 1m"},
		{append(flags, "--load", "0.9", "--defrag", "1h"), "-defrag: strategy BestFit: want one that knows NUMA nodes"},
		{append(flags, "--timed"), "pod \"p\": its creation time or its deletion time is missing: want both for every pod"},
		{append(flags, "--trace", gangs), "pod \"g\" stands for a gang of 3: want -load or -timed"},
		{append(flags, "--trace", bad), "bad, line 2, cpu_milli: \"-1\": want"},
		{append(flags, "--nodes", bad), "want a column sn"},
		{append(flags, "--nodes", dir+"/none"), "no such file"},
	} {
		if _, err := played(t, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
