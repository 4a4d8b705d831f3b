// Builds the page into ../static. The same sources give the same files on every machine.
import { build } from 'esbuild'
import { copyFile, mkdir } from 'node:fs/promises'

const out = process.argv[2] || '../static'
await mkdir(out, { recursive: true })
await build({
  entryPoints: ['src/main.jsx'], outfile: out + '/app.js', bundle: true, minify: true, format: 'iife', target: 'es2022',
  banner: { js: '/*! with preact, MIT License, Copyright (c) Jason Miller */' },
  jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none', charset: 'utf8',
})
await build({ entryPoints: ['src/app.css'], outfile: out + '/app.css', minify: true, target: ['chrome120', 'firefox121', 'safari17'] })
for (const name of ['index.html', 'icon.svg']) await copyFile('src/' + name, out + '/' + name)
