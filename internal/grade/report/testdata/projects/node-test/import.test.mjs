import './no-such-module.mjs';
