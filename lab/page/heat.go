package page

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
)

// heat shows how the nodes of a strategy fill.
type heat struct {
	key
	Picture template.URL
	// Words describe the picture for readers who cannot see it.
	Words string
	Last  int // percent arrived at its right edge
}

func (c *Comparison) heats(all []strategyRuns) (out []heat) {
	for i := range all {
		r := c.Filled.Of(all[i].key.Name)
		if r == nil || len(r.InUse) < 2 {
			continue
		}
		out = append(out, heat{all[i].key, pictureOf(r), heatWords(r), r.Steps[len(r.Steps)-1]})
	}
	return out
}

// heatWords describes the used parts of the rows at the end.
func heatWords(r *Filling) string {
	full, empty, end := 0, 0, r.InUse[len(r.InUse)-1]
	for _, v := range end {
		switch {
		case v >= 250:
			full++
		case v <= 5:
			empty++
		}
	}
	return fmt.Sprintf("At the end %.0f percent of the rows are full, %.0f percent empty.", part100(full, len(end)), part100(empty, len(end)))
}

func part100(n, all int) float64 { return 100 * float64(n) / float64(max(1, all)) }

// pictureOf draws a row for each node, and a column for each step. A larger used part is more
// opaque, so one picture works in light and dark mode.
func pictureOf(r *Filling) template.URL {
	palette := make(color.Palette, 64)
	for i := range palette {
		palette[i] = color.NRGBA{0x2f, 0x77, 0xb8, uint8(math.Round(255 * float64(i) / float64(len(palette)-1)))}
	}
	p := image.NewPaletted(image.Rect(0, 0, len(r.InUse), len(r.InUse[0])), palette)
	for x, column := range r.InUse {
		for y, v := range column {
			p.SetColorIndex(x, y, uint8(int(v)*(len(palette)-1)/255))
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, p); err != nil {
		panic(err) // impossible: writing to a bytes.Buffer cannot fail, and neither width nor height is 0
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
}
