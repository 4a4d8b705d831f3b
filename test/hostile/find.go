package main

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// find visits all values of Berth's types that are reachable from root, and returns the paths at
// which it finds a mark. The first mark, a namespace, may be anywhere in a string. The other marks,
// UIDs, must be whole strings. In objects of Kubernetes it checks name and UID. It skips values of
// Kubernetes' packages, for example the caches of informers, which contain the API's objects. It
// cannot see into closures.
//
// The values belong to running goroutines. find limits the process to one processor for a few
// milliseconds, so that no other goroutine changes the values.
func find(root any, marks []string) map[string]int {
	f := finder{places: map[string]int{}, seen: map[visit]bool{}, uids: map[string]bool{}}
	if root == nil || len(marks) == 0 {
		return f.places
	}
	f.namespace = marks[0]
	for _, m := range marks[1:] {
		f.uids[m] = true
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f.walk(reflect.ValueOf(root), "")
	return f.places
}

type visit struct {
	at   unsafe.Pointer
	kind reflect.Type
}

type finder struct {
	namespace string
	uids      map[string]bool
	places    map[string]int
	seen      map[visit]bool
}

func (f *finder) text(s, path string) {
	if strings.Contains(s, f.namespace) || f.uids[s] {
		f.places[path]++
	}
}

// foreign reports whether a type belongs to another project, so that find skips its values.
func foreign(t reflect.Type) bool {
	pkg := t.PkgPath()
	first, _, _ := strings.Cut(pkg, "/")
	ours := strings.HasPrefix(pkg, "github.com/berth-dev/berth/") || pkg == "main"
	named := pkg != "" && !ours && (strings.Contains(first, ".") || pkg == "time" || pkg == "context" || pkg == "reflect")
	return named && pkg != "k8s.io/apimachinery/pkg/types"
}

// walk checks a value and everything reachable from it.
func (f *finder) walk(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		f.text(v.String(), path)
	case reflect.Pointer:
		f.pointer(v, path)
	case reflect.Interface:
		if !v.IsNil() {
			f.walk(v.Elem(), path)
		}
	case reflect.Struct:
		f.fields(addressable(v), path)
	case reflect.Map:
		f.entries(v, path)
	case reflect.Slice, reflect.Array:
		f.elements(v, path)
	}
}

// pointer follows a pointer once, and checks objects of Kubernetes only by their names.
func (f *finder) pointer(v reflect.Value, path string) {
	key := visit{v.UnsafePointer(), v.Type()}
	if v.IsNil() || f.seen[key] {
		return
	}
	f.seen[key] = true
	if object, ok := v.Interface().(metav1.Object); ok {
		if object.GetNamespace() == f.namespace || f.uids[string(object.GetUID())] {
			f.places[path]++
		}
		return
	}
	if m, ok := v.Interface().(*sync.Map); ok {
		m.Range(func(key, value any) bool {
			f.walk(reflect.ValueOf(key), path+"[]")
			f.walk(reflect.ValueOf(value), path+"[]")
			return true
		})
		return
	}
	f.walk(v.Elem(), path)
}

func (f *finder) fields(v reflect.Value, path string) {
	if foreign(v.Type()) {
		return
	}
	if _, ok := v.Addr().Interface().(*sync.Map); ok {
		f.pointer(v.Addr(), path)
		return
	}
	for i := range v.NumField() {
		field := v.Field(i)
		field = reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem() // whether exported or not
		f.walk(field, path+"."+v.Type().Field(i).Name)
	}
}

func (f *finder) entries(v reflect.Value, path string) {
	if v.IsNil() || f.seen[visit{v.UnsafePointer(), v.Type()}] {
		return
	}
	f.seen[visit{v.UnsafePointer(), v.Type()}] = true
	for all := v.MapRange(); all.Next(); {
		f.walk(all.Key(), path+"[]")
		f.walk(all.Value(), path+"[]")
	}
}

func (f *finder) elements(v reflect.Value, path string) {
	switch v.Type().Elem().Kind() {
	case reflect.Uint8:
		if v.Kind() == reflect.Slice {
			f.text(string(v.Bytes()), path)
		}
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		for i := range v.Len() {
			f.walk(v.Index(i), path+"[]")
		}
	}
}

// addressable returns the value, or a copy of it that has an address.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
