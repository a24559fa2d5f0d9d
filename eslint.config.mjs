// Rules for the scripts of webapp/assets, which a browser loads as they are, and for their tests.
import js from '@eslint/js';
import globals from 'globals';

export default [
  {ignores: ['**/*.min.js', '.venv/', '.venv-torch/', 'build/', 'dist/']},
  js.configs.recommended,
  {
    rules: {
      'curly': ['error', 'multi-line'],
      'eqeqeq': 'error',
      'no-implicit-globals': 'error',
      'no-shadow': 'error',
      'no-unused-vars': ['error', {caughtErrors: 'none'}],
      'no-use-before-define': ['error', {functions: false}],
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
      'strict': ['error', 'safe'],
    },
  },
  {
    files: ['webapp/assets/**/*.js'],
    languageOptions: {sourceType: 'script', globals: globals.browser},
  },
  {
    files: ['tests/javascript/**/*.js'],
    languageOptions: {sourceType: 'commonjs', globals: globals.node},
  },
];
