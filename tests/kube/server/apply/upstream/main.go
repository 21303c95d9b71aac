// Replays the scenarios on standard input through upstream's field manager and prints them with its answers.
// How to run it is said in ../test_upstream.py.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var thing = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

type step struct {
	Op          string               `json:"op"`
	Manager     string               `json:"manager"`
	Force       bool                 `json:"force,omitempty"`
	Subresource string               `json:"subresource,omitempty"`
	HasStatus   bool                 `json:"hasStatus,omitempty"`
	Object      map[string]any       `json:"object"`
	Result      map[string]any       `json:"result,omitempty"`
	Error       string               `json:"error,omitempty"`
	Causes      []metav1.StatusCause `json:"causes,omitempty"`
}

type scenario struct {
	Name  string  `json:"name"`
	Steps []*step `json:"steps"`
}

type input struct {
	Schemas   map[string]*spec.Schema `json:"schemas"`
	Scenarios []*scenario             `json:"scenarios"`
}

// machinery stands in for a scheme: one version, no defaults.
type machinery struct{}

func (machinery) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (machinery) Convert(in, out, context any) error { return nil }

func (machinery) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (machinery) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (machinery) Default(runtime.Object) {}

func main() {
	var in input
	must(json.NewDecoder(os.Stdin).Decode(&in))
	types, err := managedfields.NewTypeConverter(in.Schemas, false)
	must(err)
	var out bytes.Buffer
	for number, scenario := range in.Scenarios {
		play(types, scenario)
		separator := ",\n"
		if number == 0 {
			separator = "[\n"
		}
		line, err := json.Marshal(scenario)
		must(err)
		out.WriteString(separator)
		out.Write(line)
	}
	fmt.Println(out.String() + "\n]")
}

func play(types managedfields.TypeConverter, scenario *scenario) {
	var live *unstructured.Unstructured
	for number, step := range scenario.Steps {
		version := fieldpath.APIVersion(thing.GroupVersion().String())
		reset := map[fieldpath.APIVersion]fieldpath.Filter{}
		if step.Subresource == "status" {
			reset[version] = excluding("metadata", "spec")
		} else if step.HasStatus {
			reset[version] = excluding("status")
		}
		manager, err := managedfields.NewDefaultCRDFieldManager(
			types, machinery{}, machinery{}, machinery{}, thing, thing.GroupVersion(), step.Subresource, reset)
		must(err)
		before, _ := machinery{}.New(thing)
		if live != nil {
			before = live.DeepCopy()
		}
		raw, err := json.Marshal(step.Object)
		must(err)
		sent := &unstructured.Unstructured{}
		must(sent.UnmarshalJSON(raw))
		var after runtime.Object
		if step.Op == "apply" {
			after, err = manager.Apply(before, sent, step.Manager, step.Force)
		} else {
			after, err = manager.Update(before, sent, step.Manager)
		}
		if err != nil {
			step.Error = err.Error()
			if status, ok := err.(*apierrors.StatusError); ok && status.ErrStatus.Details != nil {
				step.Error = status.ErrStatus.Message
				step.Causes = status.ErrStatus.Details.Causes
			}
			continue
		}
		live = after.(*unstructured.Unstructured)
		live.SetUID("uid")
		entries := live.GetManagedFields()
		for i := range entries {
			// The clock cannot be set: what upstream has just stamped gets the time of its step.
			if entries[i].Time != nil && entries[i].Time.Year() > 2024 {
				moment := metav1.NewTime(time.Date(2024, 1, 1, 0, 0, number, 0, time.UTC))
				entries[i].Time = &moment
			}
		}
		live.SetManagedFields(entries)
		step.Result = live.DeepCopy().Object
	}
}

func excluding(fields ...string) fieldpath.Filter {
	set := fieldpath.NewSet()
	for _, field := range fields {
		set.Insert(fieldpath.MakePathOrDie(field))
	}
	return fieldpath.NewExcludeSetFilter(set)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
