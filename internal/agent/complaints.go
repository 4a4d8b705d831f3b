package agent

import "log/slog"

// topic is a kind of failure that may happen many times a second but must be logged only once.
type topic string

// The topics. Their values are texts for the log.
const (
	topicPlatform    topic = "cannot report yet"
	topicActive      topic = "the kubelet does not list its active pods; the agent counts each ended pod as active for a fixed time instead"
	topicMachine     topic = "the machine has changed, and the agent cannot read it"
	topicDevices     topic = "the machine's devices have changed, and the agent cannot read the machine"
	topicDescription topic = "the kubelet does not list its allocatable devices"
	topicGPUs        topic = "the choice of NVIDIA's device plugin cannot be predicted"
	topicHolders     topic = "the kubelet does not list the devices of its pods"
)

// complaints logs a repeated failure only once, and then its end. Only one goroutine uses it.
type complaints struct {
	log  *slog.Logger
	last map[topic]string // by topic, the last logged error, until the failure is over
}

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, last: map[topic]string{}}
}

// about logs an error that differs from the last error of its topic. If the error is nil, the
// failure is over.
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
