// Command promql checks the expressions of alert rules and dashboards with Prometheus's own parser:
//
//	go -C tools/promql run . ../../deploy/alerts/berth.yaml ../../deploy/dashboards/berth.json
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks every value of a key "expr" in the files, which are YAML or JSON.
func run(files []string) error {
	p := parser.NewParser(parser.Options{})
	// Grafana replaces these variables.
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h")
	var errs []error
	count := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var document any
		if err := yaml.Unmarshal(data, &document); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, e := range expressions(document) {
			count++
			if _, err := p.ParseExpr(variables.Replace(e)); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", file, e, err))
			}
		}
	}
	fmt.Printf("%d expressions, %d of them wrong\n", count, len(errs))
	if count == 0 {
		errs = append(errs, errors.New("no expressions were found"))
	}
	return errors.Join(errs...)
}

func expressions(v any) (out []string) {
	switch v := v.(type) {
	case map[any]any:
		for key, value := range v {
			if text, ok := value.(string); ok && key == "expr" {
				out = append(out, text)
			}
			out = append(out, expressions(value)...)
		}
	case []any:
		for _, value := range v {
			out = append(out, expressions(value)...)
		}
	}
	return out
}
