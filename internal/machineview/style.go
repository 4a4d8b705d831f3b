package machineview

// Style is the style sheet of a drawing, with a class for each kind of object. Colours also differ
// in lightness, for readers who cannot distinguish hues, and they adapt to the reader's dark mode.
// The eight colours of berths are from Paul Tol's scheme "light", which is designed for dark
// letters. Because colours repeat, each berth also has letters, and every eight berths another
// texture: none, lines or dots.
const Style = `
.machine text{font:12px system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;fill:#1f2933}
.machine .h{font-weight:600}.machine .d{fill:#52606d}.machine .big{font-size:20px;font-weight:650}.machine .sub{font-size:13px;fill:#52606d}
.machine .pu{font-size:10.5px;text-anchor:middle;font-variant-numeric:tabular-nums}.machine .num{font-size:11px;text-anchor:middle;font-variant-numeric:tabular-nums}
.machine .id{font-size:9.5px;text-anchor:end;font-variant-numeric:tabular-nums;fill:#52606d}.machine .tag{font-size:10.5px;font-weight:700}.machine .mid{text-anchor:middle}
.page{fill:#fff}.package{fill:#f3f5f8;stroke:#c3ccd6}.die{fill:#eceff4;stroke:#c3ccd6;stroke-dasharray:4 3}
.node{fill:#e4effc;stroke:#6ea3dc}.memory{fill:#efe7fb;stroke:#a98bd6;stroke-dasharray:6 3}.l3{fill:#fff3d6;stroke:#ddb255}
.core{fill:#fff;stroke:#b8c2cc}.cpu{fill:#d3eedd}.device{fill:#fff;stroke:#8895a3}.gpu{fill:#d9f2c8;stroke:#74ac3e}.net{fill:#fde3d0;stroke:#d98b4a}.disk{fill:#e6e9ee;stroke:#8895a3}
.far{fill:#4d8fd6;stroke:none}.switch{fill:none;stroke:#8895a3;stroke-dasharray:3 3}
.berths .node{fill:#e9edf2;stroke:#8fa1b5}.berths .l3{fill:#f6f8fa;stroke:#cbd3dc}.berths .core{fill:none;stroke:#cbd3dc}
.berths .free{fill:#fff;stroke:#d3dae2}.berths .kept{fill:#cdd5de;stroke:#b4bfca}.berths .gpu,.berths .net,.berths .disk{fill:#fff;stroke:#8895a3}
.berths .p0{fill:#77aadd}.berths .p1{fill:#ee8866}.berths .p2{fill:#44bb99}.berths .p3{fill:#eedd88}.berths .p4{fill:#ffaabb}.berths .p5{fill:#99ddff}.berths .p6{fill:#aaaa00}.berths .p7{fill:#c7b3e5}
.machine .own~text,.machine .own~text .d{fill:#15202b}.berths .held{fill-opacity:.3;stroke:#15202b;stroke-dasharray:3 2}.t{stroke:#15202b;stroke-opacity:.3;stroke-width:1.4}.dot{fill:#15202b;fill-opacity:.32}
@media (prefers-color-scheme:dark){.machine text{fill:#e6eaf0}.machine .d,.machine .sub,.machine .id{fill:#9aa7b5}.page{fill:#14181d}.package{fill:#1c2229;stroke:#3c4753}.die{fill:#20272f;stroke:#3c4753}
.node{fill:#16304d;stroke:#3f76b3}.memory{fill:#2f2347;stroke:#7a5bb0}.l3{fill:#42351a;stroke:#8c6d2a}.core{fill:#14181d;stroke:#4b5763}.cpu{fill:#1f4d33}
.device{fill:#1c2229;stroke:#6b7885}.gpu{fill:#2a441a;stroke:#5f9133}.net{fill:#4a2d18;stroke:#b06c33}.disk{fill:#2a3038;stroke:#6b7885}
.berths .node{fill:#222b35;stroke:#5a6b7d}.berths .l3{fill:#1b222a;stroke:#3c4753}.berths .core{stroke:#3c4753}
.berths .free{fill:#141a20;stroke:#3a4550}.berths .kept{fill:#3a444f;stroke:#4d5966}.berths .gpu,.berths .net,.berths .disk{fill:#1c2229;stroke:#6b7885}
.machine .own~text,.machine .own~text .d{fill:#10171e}.berths .held{stroke:#e6eaf0}.machine .held~text,.machine .held~text .d{fill:#e6eaf0}}
`

// textures are the patterns that block draws over the colour of a berth.
const textures = `<defs><pattern id="t1" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="t" d="M0 0V6"/></pattern>` +
	`<pattern id="t2" width="5" height="5" patternUnits="userSpaceOnUse"><circle class="dot" cx="2" cy="2" r="1.1"/></pattern></defs>` + "\n"
