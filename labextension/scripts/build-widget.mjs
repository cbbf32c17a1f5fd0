// Bundles the drawing code and its styles for the widgets: one ES module and one style sheet each, no address in either.
import { build } from 'esbuild';

const outdir = '../kai_jupyter/widgets/static';
const shared = { bundle: true, minify: true, logLevel: 'warning' };

const module = { ...shared, format: 'esm', target: 'es2021', charset: 'utf8' };

await build({ ...module, entryPoints: ['src/widget/card.ts'], outfile: `${outdir}/card.js` });
await build({ ...shared, entryPoints: ['style/widget.css'], outfile: `${outdir}/card.css` });
await build({ ...module, entryPoints: ['src/widget/team.ts'], outfile: `${outdir}/team.js` });
await build({ ...shared, entryPoints: ['style/board.css'], outfile: `${outdir}/team.css` });
