package trial

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/internal/child"
)

// AwaitFile waits for a file that the process writes, and returns its content. If the process ends
// before, the error has the end of its log.
func AwaitFile(ctx context.Context, p *child.Process, file string) (data []byte, err error) {
	var missing error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		ended := p.Ended() // before the file is read, which may be written just before the process ends
		if data, missing = os.ReadFile(file); missing == nil {
			return true, nil
		}
		return false, ended
	})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("%s: %w: %w", p.Name, err, missing)
	}
	return data, err
}
