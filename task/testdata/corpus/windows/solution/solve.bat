exit /b 0
