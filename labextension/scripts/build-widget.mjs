// Bundles the drawing code and its styles for the widget: one ES module and one style sheet, no address in either.
import { build } from 'esbuild';

const outdir = '../kai_jupyter/widgets/static';
const shared = { bundle: true, minify: true, logLevel: 'warning' };

await build({
  ...shared,
  entryPoints: ['src/widget/card.ts'],
  outfile: `${outdir}/card.js`,
  format: 'esm',
  target: 'es2021',
  charset: 'utf8'
});
await build({ ...shared, entryPoints: ['style/widget.css'], outfile: `${outdir}/card.css` });
