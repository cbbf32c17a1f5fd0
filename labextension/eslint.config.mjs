import js from '@eslint/js';
import jupyter from '@jupyter/eslint-plugin';
import ts from 'typescript-eslint';

/** A folder and what it may not import. Types of the wire may be named anywhere: they are erased. */
const layer = (folder, banned) => ({
  files: [`src/${folder}/**/*.ts`],
  rules: {
    '@typescript-eslint/no-restricted-imports': [
      'error',
      {
        patterns: banned.map(name => ({
          group: [name],
          message: `${folder} must not import ${name}`,
          allowTypeImports: name === '**/api/**'
        }))
      }
    ]
  }
});

export default ts.config(
  { ignores: ['lib', 'node_modules', 'src/api/schema.ts'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...[jupyter.configs.recommended].flat(),
  {
    files: ['src/**/*.ts', 'test/**/*.ts'],
    languageOptions: { parserOptions: { project: './tsconfig.test.json' } },
    rules: {
      'max-lines': ['error', 400],
      complexity: ['error', 14],
      'no-console': 'error',
      // What activation needs is imported at once; the tab of a group, which it does not, is loaded when it opens.
      'jupyter/prefer-lazy-imports': 'off',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/naming-convention': [
        'error',
        {
          selector: 'interface',
          format: ['PascalCase'],
          custom: { regex: '^I[A-Z]', match: true }
        },
        { selector: 'typeLike', format: ['PascalCase'] }
      ],
      '@typescript-eslint/no-redeclare': 'off',
      'no-redeclare': 'off'
    }
  },
  { files: ['test/**/*.ts'], rules: { 'jupyter/no-untranslated-string': 'off' } },
  layer('api', [
    '**/model/**',
    '**/draw/**',
    '**/view/**',
    '**/plugins/**',
    'react',
    '@lumino/widgets'
  ]),
  layer('model', ['**/draw/**', '**/view/**', '**/plugins/**', 'react', '@lumino/widgets']),
  layer('draw', [
    '**/api/**',
    '**/model/**',
    '**/view/**',
    '**/plugins/**',
    'react',
    '@lumino/*',
    '@jupyterlab/*'
  ]),
  layer('widget', ['**/view/**', '**/plugins/**', 'react', '@lumino/*', '@jupyterlab/*']),
  layer('view', ['**/api/**', '**/plugins/**'])
);
