import './no-such-module';
