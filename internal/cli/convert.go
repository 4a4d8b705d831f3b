package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/convert"
	"github.com/berth-dev/berth/internal/manifest"
	"github.com/berth-dev/berth/internal/wire"
)

// NewConvertCommand returns the verb that converts a configuration of Volcano's scheduler to a
// configuration of berth-scheduler.
func NewConvertCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Turn a configuration of Volcano's scheduler into one of berth-scheduler's",
		Long: `Reads volcano-scheduler.conf, the ConfigMap that contains it, or the parameters of a product's add-on. Writes a
KubeSchedulerConfiguration with a profile "volcano", which schedules the same pods under the same scheduler name. For
every setting without a counterpart, a line on stderr describes what to do instead. Exit code 1 means that a setting
was not understood; the configuration omits it.`,
		Example: `  berth convert -f volcano-scheduler.conf > berth-scheduler.yaml
  kubectl get configmap -n volcano-system volcano-scheduler-configmap -o yaml | berth convert -f - > berth-scheduler.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return Usagef("-f is missing: want volcano-scheduler.conf, the ConfigMap that contains it, or - for standard input")
			}
			return convertVolcano(cmd, file)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "the configuration, or its ConfigMap; - for standard input")
	return cmd
}

func convertVolcano(cmd *cobra.Command, file string) error {
	text, err := manifest.ReadInput(file, cmd.InOrStdin(), convert.MaxInput)
	if err != nil {
		return err
	}
	r, err := convert.Volcano(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, note := range r.Notes {
		cmd.PrintErrln("note: " + note)
	}
	for _, unknown := range r.Unknown {
		cmd.PrintErrln("not understood: " + unknown)
	}
	if _, err := cmd.OutOrStdout().Write(r.Config); err != nil {
		return err
	}
	if n := len(r.Unknown); n > 0 {
		return fmt.Errorf("%s: %s not understood", file, wire.Counted(n, "setting"))
	}
	return nil
}
