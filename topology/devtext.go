package topology

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
)

// Devices in a machine string:
//
//	dev:3b:00.0|3b:00.1,020000,8086:1593,numa=0,root=3a,switch=3a:00.0,driver=ice,name=eth0|eth1
//	dev:3b:01.0|3b:01.1,020000,8086:1889,numa=0,root=3a,switch=3a:00.0,pf=3b:00.0
//
// Neighbouring devices that differ only in address and names share one item. The domain 0000 is
// left out, and a root "pci0000:3a" is written as "3a". Driver, root and names are percent-encoded.

// DeviceString prints devices and links as the items of a machine string. Without devices and links
// it returns "".
func (m *Machine) DeviceString() string {
	return strings.TrimPrefix(string(appendLinks(appendDevices(nil, m.Devices), m.Links)), " ")
}

// WithDevices returns a copy of m with other devices and links. It reads them from text, which has
// the format of DeviceString. WithDevices returns the same errors as Parse.
func (m *Machine) WithDevices(text string) (*Machine, error) {
	if len(text) > MaxMachineText {
		return nil, &ParseError{"machine", text[:80], fmt.Sprintf("at most %d bytes, not %d", MaxMachineText, len(text))}
	}
	p := parser{m: *m, values: map[string]string{}}
	p.m.Devices, p.m.Links = nil, nil
	if err := p.split(text); err != nil {
		return nil, err
	}
	if keys := slices.Sorted(maps.Keys(p.values)); len(keys) > 0 {
		return nil, &ParseError{"devices", keys[0], "only items of dev and link"}
	}
	if err := cmp.Or(p.parseDevices(), p.parseLinks()); err != nil {
		return nil, err
	}
	out, err := m.SetDevices(p.m.Devices, p.m.Links)
	if err != nil {
		return nil, fmt.Errorf("machine string: %w", err)
	}
	return out, nil
}

// shortAddress leaves out domain 0000.
func shortAddress(address string) string {
	if len(address) == len("0000:00:00.0") {
		return strings.TrimPrefix(address, "0000:")
	}
	return address
}

func longAddress(text string) string {
	if isPCISlot(text) {
		return "0000:" + text
	}
	return text
}

// shortRoot leaves out "pci0000:" if a bus number follows it.
func shortRoot(root string) string {
	if bus, ok := strings.CutPrefix(root, "pci0000:"); ok && isHex(bus, 2) {
		return bus
	}
	return escape(root)
}

func longRoot(text string) (string, error) {
	if isHex(text, 2) {
		return "pci0000:" + text, nil
	}
	return unescape(text)
}

// escape percent-encodes characters that could end a value. It also encodes a text of two
// hexadecimal digits, because longRoot would read it as a bus.
func escape(s string) string {
	if isHex(s, 2) {
		return fmt.Sprintf("%%%02X%s", s[0], s[1:])
	}
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

func unescape(s string) (string, error) {
	text, err := url.PathUnescape(s)
	if err != nil {
		return "", fmt.Errorf("%.40q: want text with %%XX for special characters", s)
	}
	return text, nil
}

// appendDevices appends one item for every run of devices that differ only in address and name.
func appendDevices(b []byte, devices []Device) []byte {
	for i := 0; i < len(devices); {
		n := 1
		for i+n < len(devices) && sharesItem(&devices[i], &devices[i+n]) {
			n++
		}
		b = append(b, " dev:"...)
		b = appendDeviceItem(b, devices[i:i+n])
		i += n
	}
	return b
}

func sharesItem(a, b *Device) bool {
	twin := *b
	twin.Address = a.Address
	if a.Name != "" && b.Name != "" {
		twin.Name = a.Name
	}
	if a.RDMA != "" && b.RDMA != "" {
		twin.RDMA = a.RDMA
	}
	return twin == *a
}

func appendDeviceItem(b []byte, run []Device) []byte {
	d := &run[0]
	for i := range run {
		if i > 0 {
			b = append(b, '|')
		}
		b = append(b, shortAddress(run[i].Address)...)
	}
	b = fmt.Appendf(b, ",%s,%s:%s", d.Class, d.Vendor, d.Product)
	if d.HasNUMA {
		b = fmt.Appendf(b, ",numa=%d", d.NUMA)
	}
	for _, a := range [...]struct{ key, value string }{
		{"root", shortRoot(d.Root)}, {"switch", shortAddress(d.Switch)}, {"pf", shortAddress(d.Physical)}, {"driver", escape(d.Driver)},
	} {
		if a.value != "" {
			b = fmt.Appendf(b, ",%s=%s", a.key, a.value)
		}
	}
	b = appendNames(b, "name", run, (*Device).name)
	return appendNames(b, "rdma", run, (*Device).rdma)
}

func (d *Device) name() *string { return &d.Name }
func (d *Device) rdma() *string { return &d.RDMA }

// appendNames appends the names of the functions of an item, if they have any.
func appendNames(b []byte, key string, run []Device, of func(*Device) *string) []byte {
	if *of(&run[0]) == "" {
		return b
	}
	sep := "," + key + "="
	for i := range run {
		b = append(append(b, sep...), escape(*of(&run[i]))...)
		sep = "|"
	}
	return b
}

func (p *parser) parseDevices() error {
	for _, text := range p.devs {
		run, err := parseDeviceItem(text)
		if err != nil {
			return err
		}
		if len(p.m.Devices)+len(run) > MaxDevices {
			return &ParseError{"dev", text, fmt.Sprintf("at most %d devices", MaxDevices)}
		}
		p.m.Devices = append(p.m.Devices, run...)
	}
	return nil
}

func parseDeviceItem(text string) ([]Device, error) {
	parts := strings.Split(text, ",")
	if len(parts) < 3 {
		return nil, &ParseError{"dev", text,
			"ADDRESS,CLASS,VENDOR:PRODUCT[,numa=N][,root=R][,switch=ADDRESS][,pf=ADDRESS][,driver=D][,name=N][,rdma=N]"}
	}
	vendor, product, _ := strings.Cut(parts[2], ":")
	d := Device{Class: parts[1], Vendor: vendor, Product: product}
	names := map[string][]string{}
	seen := map[string]bool{}
	for _, attribute := range parts[3:] {
		key, value, _ := strings.Cut(attribute, "=")
		if seen[key] || value == "" {
			return nil, &ParseError{"dev", attribute, "KEY=VALUE, each key once"}
		}
		seen[key] = true
		if key == "name" || key == "rdma" {
			names[key] = strings.Split(value, "|")
			continue
		}
		if err := d.setAttribute(key, value); err != nil {
			return nil, &ParseError{"dev", attribute, err.Error()}
		}
	}
	addresses := strings.Split(parts[0], "|")
	out := make([]Device, len(addresses))
	for i, address := range addresses {
		out[i] = d
		out[i].Address = longAddress(address)
	}
	return out, cmp.Or(nameAll(text, out, names["name"], (*Device).name), nameAll(text, out, names["rdma"], (*Device).rdma))
}

func (d *Device) setAttribute(key, value string) (err error) {
	switch key {
	case "numa":
		var n int
		n, err = parseNumber(value, math.MaxUint16)
		d.NUMA, d.HasNUMA = NUMAID(n), true
	case "root":
		d.Root, err = longRoot(value)
	case "switch":
		d.Switch = longAddress(value)
	case "pf":
		d.Physical = longAddress(value)
	case "driver":
		d.Driver, err = unescape(value)
	default:
		err = fmt.Errorf("one of the keys numa, root, switch, pf, driver, name, rdma")
	}
	return err
}

// nameAll gives each device of an item its name.
func nameAll(text string, devices []Device, names []string, of func(*Device) *string) error {
	if names == nil {
		return nil
	}
	if len(names) != len(devices) {
		return &ParseError{"dev", text, fmt.Sprintf("one name for each address, so %d", len(devices))}
	}
	for i := range devices {
		name, err := unescape(names[i])
		if err != nil || name == "" {
			return &ParseError{"dev", text, "names that are not empty"}
		}
		*of(&devices[i]) = name
	}
	return nil
}
