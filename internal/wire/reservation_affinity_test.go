package wire

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func wanting(text string) *corev1.Pod {
	return podWith("p", "1", func(p *corev1.Pod) { p.Annotations = map[string]string{ReservationAffinityAnnotation: text} })
}

func affinityOf(t *testing.T, text string) *ReservationAffinity {
	t.Helper()
	a, err := ReadReservationAffinity(wanting(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestReservationAffinity: the Reservations that are allowed, by name, labels and terms.
func TestReservationAffinity(t *testing.T) {
	const required = `"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":`
	r := &Reservation{Name: "r", Labels: map[string]string{"team": "ml", "size": "4"}}
	for text, want := range map[string]bool{
		`{}`:                                     true, // any Reservation of which the pod is an owner
		`{"name":"r"}`:                           true,
		`{"name":"s"}`:                           false,
		`{"reservationSelector":{"team":"ml"}}`:  true,
		`{"reservationSelector":{"team":"web"}}`: false,
		`{"name":"r","reservationSelector":{"team":"web"}}`:                                                                                                       false,
		`{` + required + `[{"matchExpressions":[{"key":"team","operator":"In","values":["web","ml"]}]}]}}`:                                                        true,
		`{` + required + `[{"matchExpressions":[{"key":"size","operator":"Gt","values":["4"]}]}]}}`:                                                               false,
		`{` + required + `[{"matchExpressions":[{"key":"none","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["r"]}]}]}}`: true,
		`{` + required + `[{}]}}`: false, // an empty term matches nothing, as in node affinity
		`{"name":"r",` + required + `[{"matchExpressions":[{"key":"none","operator":"Exists"}]}]}}`: false,
	} {
		if got := affinityOf(t, text).Allows(r); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if a, err := ReadReservationAffinity(podWith("p", "1")); a != nil || err != nil || !a.Allows(r) {
		t.Errorf("a pod that says nothing: %+v, %v", a, err)
	}
	for text, want := range map[string]string{
		``: "JSON as Koordinator documents it", `[]`: "JSON as Koordinator documents it: an object instead of a list", `{"name":"r"`: "JSON",
		`{"name":5}`: "JSON as Koordinator documents it: name: a string instead of a number",
		`{"tolerations":[{"key":"k","operator":"Exist"}]}`: `tolerations[0].operator: "Exist": want Exists, Equal or nothing`,
		`{"tolerations":[{"key":"k","effect":"NoStart"}]}`: `tolerations[0].effect: "NoStart": want NoSchedule, PreferNoSchedule`,
		`{"Name":"r"}`: `unknown field "Name"`, `{"name":"r","name":"s"}`: "duplicate field",
		`{"preferredDuringSchedulingIgnoredDuringExecution":[]}`:                                   `unknown field "preferredDuringSchedulingIgnoredDuringExecution"`,
		`{"reservationSelector":{"team":"not a label"}}`:                                           "reservationSelector",
		`{` + required + `[]}}`:                                                                    `"0 terms": want 1 to 64`,
		`{` + required + `[` + strings.Repeat(`{},`, 64) + `{}]}}`:                                 `"65 terms": want 1 to 64`,
		`{` + required + `[{"matchExpressions":[{"key":"a","operator":"Near","values":["b"]}]}]}}`: `labels and names of Reservations: nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near"`,
		`{` + required + `[{"matchFields":[{"key":"spec.x","operator":"In","values":["b"]}]}]}}`:   `matchFields[0].key: "spec.x": want metadata.name`,
		`{"name":"` + strings.Repeat("x", maxKoordinatorText) + `"}`:                               "at most 4096 bytes",
	} {
		_, err := ReadReservationAffinity(wanting(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ReservationAffinityAnnotation) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
	member := wanting(`{}`)
	member.Annotations[GangAnnotation], member.Annotations[GangMinimumAnnotation] = "g", "2"
	if _, err := ReadReservationAffinity(member); err == nil || !strings.Contains(err.Error(), "members of gangs") {
		t.Errorf("a member of a gang: %v", err)
	}
}

func FuzzReadReservationAffinity(f *testing.F) {
	f.Add(`{"name":"r","reservationSelector":{"a":"b"},"tolerations":[{"key":"k"}]}`)
	f.Add(`{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["r"]}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r := &Reservation{Name: "r", Labels: map[string]string{"a": "b"}, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}}
		a, err := ReadReservationAffinity(wanting(text))
		if (a == nil) == (err == nil) {
			t.Fatalf("%+v, %v", a, err)
		}
		if err == nil {
			a.Allows(r)
			a.Tolerates(r, podWith("p", "1"))
		}
	})
}
