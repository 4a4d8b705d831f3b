package agent

import "log/slog"

// topic is a kind of failure that can happen many times a second but deserves only one line.
type topic string

// The topics, as their log lines name them.
const (
	topicPlatform    topic = "cannot report yet"
	topicActive      topic = "the kubelet does not tell its active pods; going by time"
	topicMachine     topic = "the machine has changed and cannot be read"
	topicDevices     topic = "the machine has other devices and cannot be read"
	topicDescription topic = "the kubelet does not describe its devices"
	topicGPUs        topic = "the choice of NVIDIA's device plugin cannot be predicted"
	topicHolders     topic = "the kubelet does not tell which devices its pods hold"
)

// complaints logs a repeated failure once, and its end once. One goroutine uses it.
type complaints struct {
	log  *slog.Logger
	last map[topic]string // errors that were logged and are not over
}

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, last: map[topic]string{}}
}

// about logs an error that differs from the last of its topic. nil means that the failure is over.
func (c *complaints) about(t topic, err error) {
	said := c.last[t]
	switch {
	case err == nil && said != "":
		delete(c.last, t)
		c.log.Info("over: " + string(t))
	case err != nil && err.Error() != said:
		c.last[t] = err.Error()
		c.log.Warn(string(t), "error", err)
	}
}
