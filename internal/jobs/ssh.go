package jobs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batch "github.com/berth-dev/berth/api/batch/v1alpha1"
)

// sshPlugin lets the pods of a Job log in to each other with the Job's own key pair.
type sshPlugin struct {
	// folder is the folder with the keys in containers. private and public are the user's keys.
	folder, private, public string
	// anyUser means that a user other than root needs the keys.
	anyUser bool
	// port is the port of the SSH servers in the pods.
	port int
}

const (
	// rootKeys is the folder of root's keys, and keysInVolume their folder in the volume.
	rootKeys     = "/root/.ssh"
	keysInVolume = ".ssh"
	keyBits      = 2048
)

func newSSH(flags *flag.FlagSet) *sshPlugin {
	p := &sshPlugin{}
	flags.StringVar(&p.folder, "ssh-key-file-path", rootKeys, "")
	flags.StringVar(&p.private, "ssh-private-key", "", "")
	flags.StringVar(&p.public, "ssh-public-key", "", "")
	flags.BoolVar(&p.anyUser, "no-root", false, "")
	flags.IntVar(&p.port, "ssh-port", 22, "")
	return p
}

func (p *sshPlugin) check(*batch.Job) error {
	if p.anyUser && p.folder == rootKeys {
		p.folder = path.Join(hostsPath, keysInVolume)
	}
	switch {
	case !path.IsAbs(p.folder) || strings.Contains(p.folder, ":"):
		return fmt.Errorf("--ssh-key-file-path=%s: want an absolute path without a colon", p.folder)
	case (p.private == "") != (p.public == ""):
		return errors.New("only one of --ssh-private-key and --ssh-public-key is set: want both or neither")
	}
	return checkPort("ssh-port", p.port)
}

// secretName returns the name of the Job's Secret. The name follows from the Job, so the controller
// knows it without reading Secrets.
func secretName(job *batch.Job) string { return job.Name + "-ssh-" + uidPart(job) }

func secretMeta(job *batch.Job) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: job.Namespace, Name: secretName(job), OwnerReferences: ownerOf(job)}
}

func (p *sshPlugin) mountKeys(pod *corev1.Pod, job *batch.Job) {
	mode := int32(0o600)
	if p.folder != rootKeys {
		mode = 0o755 // the container's user is not root
	}
	var items []corev1.KeyToPath
	for _, key := range []string{"id_rsa", "id_rsa.pub", "authorized_keys", "config"} {
		items = append(items, corev1.KeyToPath{Key: key, Path: path.Join(keysInVolume, key)})
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: sshVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secretName(job), Items: items, DefaultMode: &mode},
	}})
	for _, c := range containersOf(pod) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: sshVolume, MountPath: p.folder, SubPath: keysInVolume})
	}
}

const sshVolume = "volcano-ssh"

// secret returns a Secret with the Job's keys, which are generated or given by the user, and with
// an SSH configuration for all hosts.
func (p *sshPlugin) secret(job *batch.Job, s *spec) (*corev1.Secret, error) {
	private, public := []byte(p.private), []byte(p.public)
	if p.private == "" {
		var err error
		if private, public, err = newKeys(); err != nil {
			return nil, err
		}
	}
	return &corev1.Secret{
		ObjectMeta: secretMeta(job),
		Data:       map[string][]byte{"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public, "config": []byte(p.config(job, s))},
	}, nil
}

func newKeys() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, nil, err
	}
	shown, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return private, ssh.MarshalAuthorizedKey(shown), nil
}

// config maps pods' names to their hosts. It disables host key checks, because the host keys of
// pods change.
func (p *sshPlugin) config(job *batch.Job, s *spec) string {
	var b strings.Builder
	b.WriteString("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")
	for i := range s.tasks {
		for _, host := range hostsOf(job, &s.tasks[i]) {
			name, _, _ := strings.Cut(host, ".")
			fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %d\n", name, host, p.port)
		}
	}
	return b.String()
}
